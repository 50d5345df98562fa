// Matrix product, the op in which nearly all time goes.
//   c = op(a) x op(b) [+ bias on every row] [+ c]
// op(a) is (M, K), op(b) is (K, N), c is (M, N), all row-major and dense; op transposes if asked.
// Each element of c is computed by one thread in an order that follows from (M, N, K) alone.
#pragma once

#include <cstddef>

#include "kernels/tensor/stream.hpp"
#include "kernels/tensor/tensor.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::ops {

struct MatmulArgs {
  tensor::ConstTensor a;  // (M, K), or (K, M) if transpose_a
  tensor::ConstTensor b;  // (K, N), or (N, K) if transpose_b
  tensor::Tensor c;       // (M, N)
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;         // add to c instead of overwriting it
  tensor::ConstTensor bias = {};   // (N); absent if null
  const void* packed_b = nullptr;  // b as pack_matrix wrote it; then b gives only the shape
};
// Fails with: out_of_memory (workspace too small), internal.
using MatmulFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&, const MatmulArgs&);

// A right-hand matrix in the layout the device likes best, for use in many products.
struct PackArgs {
  tensor::ConstTensor b;  // (K, N), or (N, K) if transpose_b
  bool transpose_b = false;
  void* packed = nullptr;  // packed_matrix_bytes(K, N) bytes, aligned to 64
};
using PackedBytesFn = std::size_t (*)(std::int64_t inner, std::int64_t columns);
using PackFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&, const PackArgs&);

}  // namespace gpunode::ops
