// Elementary functions made of IEEE operations only, so their bits do not depend on the C library or on the
// machine. In float64 for initial weights, learning-rate schedules and losses: accurate to a few units in the
// last place in the ranges named; not fast, not vectorised. In float32 for all scores of a vocabulary at once.
#pragma once

#include <cstdint>
#include <span>

namespace gpunode::tensor {

double exact_exp(double x);  // |x| <= 700, clamped beyond
double exact_log(double x);  // x > 0 and normal; -infinity at 0, NaN below
double exact_cos(double x);  // |x| <= 1e5
double exact_sin(double x);  // |x| <= 1e5
double exact_power(double base, std::uint64_t exponent);

// -infinity where none is finite.
float largest_finite(std::span<const float> values);
// chances = e^((score - top) * scale), where that is from `least` to 1; else 0, as for what is not finite. `top`:
// largest_finite(scores), which has 1.
void exact_chances(std::span<const float> scores, float top, float scale, float least,
                   std::span<float> chances);
double exact_sum(std::span<const float> values);  // in float64, in an order of its own

}  // namespace gpunode::tensor
