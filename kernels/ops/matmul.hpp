// Matrix product, the op in which nearly all time goes.
//   c = op(a) x op(b) [+ bias on every row] [+ c], or GELU of it
// op(a) is (M, K), op(b) is (K, N), c is (M, N), all row-major and dense; op transposes if asked.
// Each element of c is computed by one thread in an order that follows from (M, N, K) alone, or from
// K alone where rows are independent.
//
// In bf16 each element of a and b is rounded to bfloat16, to nearest, ties to even; products of
// them are exact in float32 and are summed there. Magnitudes below 2^-126 may count as zero. The
// order of a sum is the device's: instructions that take two products at once give other last bits
// than those that take one, so a processor with AVX512-BF16 or AMX does not give the bits of one
// without, though both have the same definition; Capabilities::library names which it is.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/ops/gelu.hpp"
#include "kernels/ops/weight_format.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/precision.hpp"

namespace gpunode::ops {

// Fails with: out_of_memory (workspace too small), unsupported (a precision that the device lacks),
// internal.
struct MatmulArgs {
  tensor::ConstTensor a;  // (M, K), or (K, M) if transpose_a
  tensor::ConstTensor b;  // (K, N), or (N, K) if transpose_b
  tensor::Tensor c;       // (M, N)
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;        // add to c instead of overwriting it
  tensor::ConstTensor bias = {};  // (N); absent if null
  Precision precision = Precision::fp32;
  // b in other bytes; b's own numbers are not read then. In bf16 as pack_product() has made it ready,
  // with the same transpose_b; empty: b is made ready in each call. Of independent rows, which are in
  // fp32: as pack_weights() has it in `weights`.
  ByteView packed_b = {};
  WeightFormat weights = WeightFormat::fp32;
  // Of a product that does not accumulate: c is GELU of it in this form, and what it was before is
  // kept where `before` is given, for the backward pass.
  std::optional<GeluForm> gelu = {};
  tensor::Tensor before = {};  // (M, N); absent if null
  // Each row of c has the same bits whatever M is and whichever rows stand beside it: a batch never
  // changes an answer. For weights as they lie (transpose_b), not transpose_a, not accumulate, fp32;
  // bias and GELU as ever. The sum's order follows from K alone. On a CPU it has the same bits with
  // each instruction set and number of threads, and all threads of the backend share it, so it is the
  // product for answering; on a GPU it is our own kernel, not the library's, and slower.
  bool independent_rows = false;
};

// The right factor of products in bf16 made ready once, for any number of them: rounded, and in the
// order in which the device's product reads it, which is the device's affair.
// Fails with: internal.
struct PackProductArgs {
  tensor::ConstTensor b;  // (K, N), or (N, K) if transpose_b
  bool transpose_b = false;
  MutableByteView out;  // packed_bytes(K, N), aligned to 64
  // Several may share the work: each part is done by one call, in any order.
  std::int64_t part = 0, parts = 1;
};

// (M, N, K) of a product.
struct MatmulExtents {
  std::int64_t rows = 0, columns = 0, inner = 0;
};

constexpr std::int64_t padded_extent(std::int64_t extent) {
  return (extent + 63) / 64 * 64;
}
// Bytes of b (K, N) in bf16, in whichever order a device has it.
constexpr std::size_t packed_bytes(std::int64_t inner, std::int64_t columns) {
  return 2 * static_cast<std::size_t>(padded_extent(inner) * padded_extent(columns));
}
// Columns of b that are rounded to float32 at a time where there are no instructions for bf16.
constexpr std::int64_t product_panel(const MatmulExtents& extents) {
  constexpr std::int64_t kElements = 1 << 18, kLeast = 64;
  return std::min(extents.columns, std::max(kLeast, kElements / extents.inner));
}
// Of the workspace that a product in bf16 takes, at most; one in fp32 takes what the device likes
// and does without.
constexpr std::size_t product_workspace_bytes(const MatmulExtents& extents) {
  constexpr std::size_t kGaps = 256;
  const std::size_t factors =
      sizeof(float) *
      static_cast<std::size_t>(extents.inner * (extents.rows + product_panel(extents)));
  return factors + packed_bytes(extents.inner, extents.columns) + kGaps;
}

}  // namespace gpunode::ops
