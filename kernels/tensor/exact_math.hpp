// Elementary functions in float64 made of IEEE operations only, so their bits do not depend on the
// C library: for initial weights, learning-rate schedules and losses. Accurate to a few units in
// the last place in the ranges named; not fast, not vectorised.
#pragma once

#include <cstdint>

namespace gpunode::tensor {

double exact_exp(double x);  // |x| <= 700, clamped beyond
double exact_log(double x);  // x > 0 and normal; -infinity at 0, NaN below
double exact_cos(double x);  // |x| <= 1e5
double exact_sin(double x);  // |x| <= 1e5
double exact_power(double base, std::uint64_t exponent);

}  // namespace gpunode::tensor
