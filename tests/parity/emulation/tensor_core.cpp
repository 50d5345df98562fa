#include "tests/parity/emulation/tensor_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gpunode::emulation {
namespace {

constexpr int kNoExponent = -100000;  // of zero, which takes no part in the largest

// A row of A or a column of B, or C: values and the exponents of their powers of two.
struct Number {
  double value;
  int exponent;
};

Number number(float value) {
  const int field = static_cast<int>(std::bit_cast<std::uint32_t>(value) >> 23 & 0xff);
  return {value, value == 0 ? kNoExponent : std::max(field, 1) - 127};
}

double power_of_two(int exponent) {  // |exponent| < 1000
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

float cut_to_float(double value) {
  if (std::abs(value) > std::numeric_limits<float>::max())
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value));
  const float nearest = static_cast<float>(value);
  return std::abs(static_cast<double>(nearest)) > std::abs(value) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}

// c + the products of a and b from `from` to `to`; every term exact in float64 and in int64.
float add_products(const Number* a, const Number* b, int from, int to, float c, int bits) {
  const Number start = number(c);
  int largest = start.exponent;
  for (int k = from; k < to; ++k) largest = std::max(largest, a[k].exponent + b[k].exponent);
  if (largest < kNoExponent / 2) return c;  // zeros only
  const double scale = power_of_two(bits - largest);
  auto sum = static_cast<std::int64_t>(start.value * scale);
  for (int k = from; k < to; ++k) sum += static_cast<std::int64_t>(a[k].value * b[k].value * scale);
  return cut_to_float(static_cast<double>(sum) * power_of_two(largest - bits));
}

}  // namespace

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void multiply_add(Product& product, Rounding rounding) {
  Number a[kRows][kDepth], b[kColumns][kDepth];
  bool rows_finite[kRows], columns_finite[kColumns];
  const auto fill = [](Number& place, std::uint16_t bits, bool& finite) {
    place = number(from_bf16(bits));
    finite &= std::isfinite(place.value);
  };
  for (int row = 0; row < kRows; ++row) {
    rows_finite[row] = true;
    for (int k = 0; k < kDepth; ++k) fill(a[row][k], product.a[row][k], rows_finite[row]);
  }
  for (int column = 0; column < kColumns; ++column) {
    columns_finite[column] = true;
    for (int k = 0; k < kDepth; ++k)
      fill(b[column][k], product.b[k][column], columns_finite[column]);
  }
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      float& d = product.d[row][column];
      if (!rows_finite[row] || !columns_finite[column] || !std::isfinite(d)) {
        for (int k = 0; k < kDepth; ++k)
          d += static_cast<float>(a[row][k].value * b[column][k].value);
      } else if (rounding == Rounding::hopper) {
        d = add_products(a[row], b[column], 0, kDepth, d, 25);
      } else {
        d = add_products(a[row], b[column], 0, kDepth / 2, d, 24);
        d = add_products(a[row], b[column], kDepth / 2, kDepth, d, 24);
      }
    }
  }
}

}  // namespace gpunode::emulation
