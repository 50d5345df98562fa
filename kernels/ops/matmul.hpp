// Matrix product, the op in which nearly all time goes.
//   c = op(a) x op(b) [+ bias on every row] [+ c]
// op(a) is (M, K), op(b) is (K, N), c is (M, N), all row-major and dense; op transposes if asked.
// Each element of c is computed by one thread in an order that follows from (M, N, K) alone.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

// Fails with: out_of_memory (workspace too small), internal.
struct MatmulArgs {
  tensor::ConstTensor a;  // (M, K), or (K, M) if transpose_a
  tensor::ConstTensor b;  // (K, N), or (N, K) if transpose_b
  tensor::Tensor c;       // (M, N)
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;        // add to c instead of overwriting it
  tensor::ConstTensor bias = {};  // (N); absent if null
};

}  // namespace gpunode::ops
