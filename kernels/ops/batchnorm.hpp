// Batch normalisation: each channel over all rows of a slice, so that the slice's samples share
// statistics and its result depends on which samples are in it, not on the batch it is a part of.
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias,   variance: the mean square offset
// Source: Ioffe, Szegedy, "Batch Normalization", 2015.
// Sums over rows, in both directions, are taken of spans of kBatchnormSpan rows, and the spans' joined
// in order, so that many can be worked on at once.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

inline constexpr float kBatchnormEpsilon = 1e-5f;
inline constexpr std::int64_t kBatchnormSpan = 1024;  // rows
constexpr std::int64_t batchnorm_spans(std::int64_t rows) {
  return (rows + kBatchnormSpan - 1) / kBatchnormSpan;
}
// Of the workspace that either direction takes, at most.
constexpr std::size_t batchnorm_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  return 2 * sizeof(float) * static_cast<std::size_t>(batchnorm_spans(rows) * columns) + 64;
}

struct BatchnormArgs {
  tensor::ConstTensor x;             // (R, C), e.g. (B, H, W, C) with R = B*H*W
  tensor::ConstTensor weight, bias;  // (C), (C)
  tensor::Tensor y;                  // (R, C); may be x
  tensor::Tensor mean, rstd;         // (C), (C): kept for the backward pass
  float epsilon = kBatchnormEpsilon;
  // Given, they are used in place of the slice's own: inference.
  tensor::ConstTensor running_mean = {}, running_variance = {};  // (C), (C); both or neither
};

// Of the form with the slice's own statistics. Epsilon is in rstd.
struct BatchnormBackwardArgs {
  tensor::ConstTensor dy, x;       // (R, C)
  tensor::ConstTensor weight;      // (C)
  tensor::ConstTensor mean, rstd;  // (C)
  tensor::Tensor dx;               // (R, C): overwritten; may be dy
  tensor::Tensor dweight, dbias;   // (C): overwritten
};

}  // namespace gpunode::ops
