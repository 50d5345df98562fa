// Pools over height and width, channels last: the largest value of each window, and the mean of a
// whole image.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

// Of equal values the first one, row by row, is chosen; what lies outside the image never is.
struct MaxPool2dArgs {
  tensor::ConstTensor x;              // (B, H, W, C)
  tensor::Tensor y;                   // (B, OH, OW, C), OH = (H + 2*padding - window) / stride + 1
  tensor::View<std::int32_t> places;  // (B, OH, OW, C): i*W + j of what was chosen
  std::int64_t window = 2, stride = 2;  // of height and width alike
  std::int64_t padding = 0;             // less than window
};

struct MaxPool2dBackwardArgs {
  tensor::ConstTensor dy;      // (B, OH, OW, C)
  tensor::TokenTensor places;  // (B, OH, OW, C)
  tensor::Tensor dx;           // (B, H, W, C): overwritten; windows are added in order
  std::int64_t window = 2, stride = 2, padding = 0;  // as forward
};

struct MeanPoolArgs {
  tensor::ConstTensor x;  // (B, ..., C)
  tensor::Tensor y;       // (B, C)
};

struct MeanPoolBackwardArgs {
  tensor::ConstTensor dy;  // (B, C)
  tensor::Tensor dx;       // (B, ..., C): overwritten
};

}  // namespace gpunode::ops
