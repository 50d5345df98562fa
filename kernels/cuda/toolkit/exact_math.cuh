// exp and log for kernels, operation by operation those of kernels/cpu/detail/vector16.inc and
// kernels/tensor/exact_math.cpp, so that a value has the CPU's bits wherever no sum is involved.
// Needs --fmad=false. e^x costs some twenty instructions, which a kernel that waits for memory has.
#pragma once

#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {

// e^x to about one unit in the last place; held at e^-87.3 below and e^88.3 above.
__device__ inline float exact_exp(float x) {
  x = -87.3f > x ? -87.3f : x;  // in this order a NaN stays one
  x = 88.3f < x ? 88.3f : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = fmaf(x, 1.44269504f, magic);
  const float n = shifted - magic;
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040;
  p = fmaf(p, r, 1.0f / 720);
  p = fmaf(p, r, 1.0f / 120);
  p = fmaf(p, r, 1.0f / 24);
  p = fmaf(p, r, 1.0f / 6);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  return p * __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
}

// log x of a sum of exponentials: x is normal and positive, infinite or NaN.
__device__ inline double exact_log(double x) {
  if (!(x > 0.0) || x > 1.7976931348623157e308) return x;
  std::int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  double mantissa;
  memcpy(&mantissa, &bits, sizeof mantissa);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double z = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = z * z;
  double power = z, sum = 0.0;
  for (int k = 1; k <= 21; k += 2) {
    sum += power / k;
    power *= square;
  }
  const double high = 0x1.62e42fee00000p-1, low = 0x1.a39ef35793c76p-33;  // ln 2 in two parts
  return exponent * high + (2.0 * sum + exponent * low);
}

}  // namespace gpunode::cuda
