// Products whose rows do not depend on one another (MatmulArgs::independent_rows): what a model that
// answers multiplies by. The threads of the backend's team take columns of them.
#pragma once

#include <cstddef>

#include "kernels/ops/matmul.hpp"

namespace gpunode::cpu {

// y (M, N) = x (M, K) w (N, K)^T + bias
struct RowProduct {
  using Format = ops::WeightFormat;
  static constexpr std::size_t kChunk = 512;           // of K: part of what the sum is
  static constexpr std::size_t kTogether = 64;         // rows of x that are packed at a time
  static constexpr std::size_t kColumnsTogether = 48;  // whole tiles of each instruction set
  static constexpr std::size_t kScratch = 2 * kTogether * kChunk;  // floats, of a thread
  const float *x, *w, *bias;                                       // bias may be null
  float* y;
  std::size_t rows, columns, inner;
  Format format = Format::fp32;
  const std::byte* packed = nullptr;  // w in any other format
};

// A product that asks for it, of these extents, without its GELU. Fails with: nothing so far.
Result<void> matmul_independent_rows(tensor::Stream& stream, const ops::MatmulArgs& args,
                                     const ops::MatmulExtents& extents);

}  // namespace gpunode::cpu
