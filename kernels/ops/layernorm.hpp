// Layer normalisation over the last dimension.
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias
// Source: Ba, Kiros, Hinton, "Layer Normalization", 2016.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

inline constexpr float kLayernormEpsilon = 1e-5f;

struct LayernormArgs {
  tensor::ConstTensor x;             // (T, C)
  tensor::ConstTensor weight, bias;  // (C), (C)
  tensor::Tensor y;                  // (T, C)
  tensor::Tensor mean, rstd;         // (T), (T): kept for the backward pass
  float epsilon = kLayernormEpsilon;
};

// Epsilon is in rstd.
struct LayernormBackwardArgs {
  tensor::ConstTensor dy, x;       // (T, C)
  tensor::ConstTensor weight;      // (C)
  tensor::ConstTensor mean, rstd;  // (T)
  tensor::Tensor dx;               // (T, C): added to, as the residual branch arrives here too
  tensor::Tensor dweight, dbias;   // (C): overwritten; rows are summed in order
};

}  // namespace gpunode::ops
