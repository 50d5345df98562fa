// Elementwise sums in a fixed order: residual branches, and nodes of the tree over slices.
//   out = a + b, or (a + b) + c
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct AddArgs {
  tensor::ConstTensor a, b;
  tensor::ConstTensor c = {};  // absent if null
  tensor::Tensor out;          // may be any of the inputs
};

// out[n] = sum over rows t, in order, of x[t, n]: the gradient of a bias.
struct ColumnSumArgs {
  tensor::ConstTensor x;  // (T, N)
  tensor::Tensor out;     // (N), overwritten
};

}  // namespace gpunode::ops
