// AdamW on one block of the flat parameter vector, or on all that a table names, and the square sums
// that the clip norm is made of. Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019.
//   g = gradient * scale;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2
//   w = w - rate * ((m * upscale1) / (sqrt(v * upscale2) + epsilon) + decay * w)
#pragma once

#include "kernels/ops/block_table.hpp"
#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct AdamwArgs {
  tensor::ConstTensor gradient;           // (n)
  tensor::Tensor weights, first, second;  // (n) each, updated
  float scale = 1;                        // of the gradient: 1/tokens and clipping
  float rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0;
  float upscale1 = 1, upscale2 = 1;  // 1 / (1 - beta^step): the moments start from zero
  // The rows that are no buffers, each with its own decay; none: all elements, with `decay`.
  BlockTable blocks = {};
};

// The sum of squares of x in float64, as 16 interleaved sums joined by a fixed tree; infinite or
// NaN if x holds such a value. `sum` is in the device's memory and written in the stream's order: on
// the CPU, by return. With a table, one sum a row.
struct SquareSumArgs {
  tensor::ConstTensor x;  // (n)
  double* sum = nullptr;  // (1), or (blocks.count)
  BlockTable blocks = {};
};

}  // namespace gpunode::ops
