#include "kernels/tensor/exact_math.hpp"

#include <bit>
#include <limits>

namespace gpunode::tensor {
namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1;  // ln 2 in two parts, the first with few bits
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPiHigh = 0x1.921fb54400000p+0;
constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;

double round_to_whole(double x) {
  constexpr double kMagic = 0x1.8p52;
  return (x + kMagic) - kMagic;
}

// Taylor's polynomial on |r| <= pi/4 from its first term on: r and 1 for the sine, 1 and 0 for the
// cosine.
double series(double r, double first, int odd) {
  const double square = r * r;
  double term = first, sum = first;
  for (int n = 1; n <= 9; ++n) {
    term = -term * square / static_cast<double>((2 * n - 1 + odd) * (2 * n + odd));
    sum += term;
  }
  return sum;
}

// The cosine of x and so many quarter turns.
double cosine_after(std::int64_t quarters, double x) {
  const double turns = round_to_whole(x / (kHalfPiHigh + kHalfPiLow));
  const double rest = (x - turns * kHalfPiHigh) - turns * kHalfPiLow;
  const auto quarter = (static_cast<std::int64_t>(turns) + quarters) & 3;
  const double value = quarter % 2 == 0 ? series(rest, 1.0, 0) : series(rest, rest, 1);
  return quarter == 1 || quarter == 2 ? -value : value;
}

}  // namespace

double exact_exp(double x) {
  x = x > 700.0 ? 700.0 : x < -700.0 ? -700.0 : x;
  if (x != x) return x;
  const double n = round_to_whole(x / (kLn2High + kLn2Low));
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k <= 15; ++k) {
    term = term * r / static_cast<double>(k);
    sum += term;
  }
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

double exact_log(double x) {
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 artanh(z), z = (m - 1) / (m + 1), |z| <= 0.172
  const double z = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = z * z;
  double power = z, sum = 0.0;
  for (int k = 1; k <= 21; k += 2) {
    sum += power / static_cast<double>(k);
    power *= square;
  }
  const auto n = static_cast<double>(exponent);
  return n * kLn2High + (2.0 * sum + n * kLn2Low);
}

double exact_cos(double x) {
  return cosine_after(0, x);
}

double exact_sin(double x) {
  return cosine_after(3, x);
}

double exact_power(double base, std::uint64_t exponent) {
  double result = 1.0;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

}  // namespace gpunode::tensor
