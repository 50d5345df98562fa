// Layer normalisation over the last dimension.
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias
// or the same of x + residual, which is kept: one pass over memory for both.
// Source: Ba, Kiros, Hinton, "Layer Normalization", 2016.
#pragma once

#include <algorithm>

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

inline constexpr float kLayernormEpsilon = 1e-5f;

struct LayernormArgs {
  tensor::ConstTensor x;             // (T, C)
  tensor::ConstTensor weight, bias;  // (C), (C)
  tensor::Tensor y;                  // (T, C)
  tensor::Tensor mean, rstd;         // (T), (T): kept for the backward pass
  float epsilon = kLayernormEpsilon;
  tensor::ConstTensor residual = {};  // (T, C); where it is given, x + residual is normalised and
  tensor::Tensor sum = {};            // (T, C): written here; may be x or residual
};

// Epsilon is in rstd.
struct LayernormBackwardArgs {
  tensor::ConstTensor dy, x;       // (T, C)
  tensor::ConstTensor weight;      // (C)
  tensor::ConstTensor mean, rstd;  // (T)
  tensor::Tensor dx;               // (T, C): added to, as the residual branch arrives here too
  tensor::Tensor dweight, dbias;   // (C): overwritten; rows are summed in a fixed order
};

// Of the workspace that a norm's backward takes, this one's or rmsnorm's, at most.
constexpr std::size_t norm_backward_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMostParts = 256;  // sums of weight and bias, of as many blocks of rows
  return sizeof(float) * static_cast<std::size_t>(std::min(rows, kMostParts) * 2 * columns) + 64;
}

}  // namespace gpunode::ops
