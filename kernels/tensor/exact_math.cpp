#include "kernels/tensor/exact_math.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
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

// As every x86-64 has it, four values at a time: to a few units in the last place, clamped to [-87.3, 88.3].
inline __m128 exp_of(__m128 x) {
  const auto all = [](float value) { return _mm_set1_ps(value); };
  x = _mm_min_ps(_mm_max_ps(x, all(-87.3f)), all(88.3f));
  const __m128 magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const __m128 shifted = _mm_add_ps(_mm_mul_ps(x, all(1.44269504f)), magic);
  const __m128 n = _mm_sub_ps(shifted, magic);
  const __m128 high = _mm_mul_ps(n, all(0.693359375f));  // exact
  const __m128 r = _mm_add_ps(_mm_sub_ps(x, high), _mm_mul_ps(n, all(2.12194440e-4f)));
  __m128 sum = all(1.0f / 5040);
#pragma GCC unroll 7
  for (const float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    sum = _mm_add_ps(_mm_mul_ps(sum, r), all(factor));
  const __m128i exponent = _mm_slli_epi32(_mm_castps_si128(shifted), 23);
  return _mm_mul_ps(sum, _mm_castsi128_ps(_mm_add_epi32(exponent, _mm_set1_epi32(0x3f800000))));
}

// Whole fours of values, and the last ones with `filler` behind them: work(first, how many, four).
template <class Work>
void each_four(std::span<const float> values, float filler, const Work& work) {
  std::size_t at = 0;
  for (; at + 4 <= values.size(); at += 4)
    work(at, std::size_t{4}, _mm_loadu_ps(values.data() + at));
  if (at == values.size()) return;
  float last[4] = {filler, filler, filler, filler};
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(at), values.end(), last);
  work(at, values.size() - at, _mm_loadu_ps(last));
}

}  // namespace

float largest_finite(std::span<const float> values) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const __m128 most = _mm_set1_ps(std::numeric_limits<float>::max()), none = _mm_set1_ps(kNone);
  __m128 largest = none;
  each_four(values, kNone, [&](std::size_t, std::size_t, __m128 four) {
    const __m128 finite = _mm_cmple_ps(four, most);
    largest = _mm_max_ps(_mm_or_ps(_mm_and_ps(finite, four), _mm_andnot_ps(finite, none)), largest);
  });
  float lanes[4];
  _mm_storeu_ps(lanes, largest);
  return *std::max_element(lanes, lanes + 4);
}

void exact_chances(std::span<const float> scores, float top, float scale, float least,
                   std::span<float> chances) {
  const __m128 tops = _mm_set1_ps(top), scales = _mm_set1_ps(scale);
  const __m128 low = _mm_set1_ps(least), high = _mm_set1_ps(1.0f);
  each_four(scores, top, [&](std::size_t at, std::size_t count, __m128 four) {
    const __m128 chance = exp_of(_mm_mul_ps(_mm_sub_ps(four, tops), scales));
    const __m128 counts = _mm_and_ps(_mm_cmpge_ps(chance, low), _mm_cmple_ps(chance, high));
    float lanes[4];
    _mm_storeu_ps(count == 4 ? chances.data() + at : lanes, _mm_and_ps(counts, chance));
    if (count < 4) std::copy_n(lanes, count, chances.data() + at);
  });
}

double exact_sum(std::span<const float> values) {
  __m128d chains[4] = {_mm_setzero_pd(), _mm_setzero_pd(), _mm_setzero_pd(), _mm_setzero_pd()};
  std::size_t at = 0;
  for (; at + 8 <= values.size(); at += 8)
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const __m128i two =
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(values.data() + at + 2 * i));
      chains[i] = _mm_add_pd(chains[i], _mm_cvtps_pd(_mm_castsi128_ps(two)));
    }
  const __m128d all =
      _mm_add_pd(_mm_add_pd(chains[0], chains[1]), _mm_add_pd(chains[2], chains[3]));
  double lanes[2];
  _mm_storeu_pd(lanes, all);
  double sum = lanes[0] + lanes[1];
  for (; at < values.size(); ++at) sum += static_cast<double>(values[at]);
  return sum;
}

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
