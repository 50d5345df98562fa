// Elementwise sums in a fixed order: residual branches, and nodes of the tree over slices.
//   out = a + b, or (a + b) + c
#pragma once

#include "kernels/tensor/stream.hpp"
#include "kernels/tensor/tensor.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::ops {

struct AddArgs {
  tensor::ConstTensor a, b;
  tensor::ConstTensor c = {};  // absent if null
  tensor::Tensor out;          // may be any of the inputs
};
using AddFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&, const AddArgs&);

// out[n] = sum over rows t, in order, of x[t, n]: the gradient of a bias.
struct ColumnSumArgs {
  tensor::ConstTensor x;  // (T, N)
  tensor::Tensor out;     // (N), overwritten
};
using ColumnSumFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&, const ColumnSumArgs&);

}  // namespace gpunode::ops
