// Root-mean-square normalisation over the last dimension: no mean, no bias.
//   y = x / sqrt(mean(x^2) + epsilon) * weight
// or the same of x + residual, which is kept: one pass over memory for both.
// Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

inline constexpr float kRmsnormEpsilon = 1e-5f;

struct RmsnormArgs {
  tensor::ConstTensor x;       // (R, C)
  tensor::ConstTensor weight;  // (C)
  tensor::Tensor y;            // (R, C)
  tensor::Tensor rstd;         // (R): 1 / sqrt(...), kept for the backward pass
  float epsilon = kRmsnormEpsilon;
  tensor::ConstTensor residual = {};  // (R, C); where it is given, x + residual is normalised and
  tensor::Tensor sum = {};            // (R, C): written here; may be x or residual
};

// Epsilon is in rstd.
struct RmsnormBackwardArgs {
  tensor::ConstTensor dy, x;   // (R, C)
  tensor::ConstTensor weight;  // (C)
  tensor::ConstTensor rstd;    // (R)
  tensor::Tensor dx;           // (R, C): added to, as the residual branch arrives here too
  tensor::Tensor dweight;      // (C): overwritten; rows are summed in a fixed order
};

}  // namespace gpunode::ops
