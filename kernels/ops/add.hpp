// Elementwise sums in a fixed order: residual branches, and nodes of the tree over slices.
//   out = a + b, or (a + b) + c
#pragma once

#include <algorithm>

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct AddArgs {
  tensor::ConstTensor a, b;
  tensor::ConstTensor c = {};  // absent if null
  tensor::Tensor out;          // may be any of the inputs
};

// out[n] = sum over rows t of x[t, n]: the gradient of a bias. Rows are summed in order within a
// block of sum_block(T) of them, and blocks in order, so that many can be worked on at once.
struct ColumnSumArgs {
  tensor::ConstTensor x;  // (T, N)
  tensor::Tensor out;     // (N), overwritten
};
constexpr std::int64_t sum_block(std::int64_t rows) {
  constexpr std::int64_t kLeastRows = 32, kMostBlocks = 128;
  return std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks);
}
// Of the workspace that it takes, at most.
constexpr std::size_t column_sum_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = (rows + sum_block(rows) - 1) / sum_block(rows);
  return sizeof(float) * static_cast<std::size_t>(blocks * columns) + 64;
}

}  // namespace gpunode::ops
