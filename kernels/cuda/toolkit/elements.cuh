// Walks over flat arrays: every thread takes four neighbours at a time with one 16-byte access
// where all arrays allow it, single values elsewhere and in the tail. The arithmetic is the same
// for both, so alignment does not show in the bits. A grid need not cover the array; it strides
// over it.
#pragma once

#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {

constexpr int kElementThreads = 256;
constexpr std::int64_t kElementBlocks = 2048;  // fills every GPU there is; more would only queue

// Blocks for so many elements, four a thread; one where there are none, as CUDA refuses less.
inline std::int64_t element_blocks(std::int64_t count) {
  const std::int64_t blocks = 1 + (count - 1) / (4 * kElementThreads);
  return blocks < kElementBlocks ? blocks : kElementBlocks;
}

template <int kCount>
struct Lanes {
  float at[kCount];
};

template <int kCount>
__device__ inline Lanes<kCount> load(const float* from) {
  if constexpr (kCount == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {four.x, four.y, four.z, four.w};
  } else {
    return {*from};
  }
}

template <int kCount>
__device__ inline void store(float* to, const Lanes<kCount>& lanes) {
  if constexpr (kCount == 4)
    *reinterpret_cast<float4*>(to) =
        make_float4(lanes.at[0], lanes.at[1], lanes.at[2], lanes.at[3]);
  else
    *to = lanes.at[0];
}

__device__ inline bool allows(int bytes, const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<unsigned>(bytes) == 0;
}

// Whether all the arrays may be read and written four floats at a time; a null pointer may.
template <class... Pointers>
__device__ inline bool allow_four(Pointers... arrays) {
  return (allows(16, arrays) && ...);
}

// Calls body.operator()<4>(i) or <1>(i), i the first element of so many, over [0, count).
template <class Body>
__device__ inline void for_elements(std::int64_t count, bool by_four, Body body) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t fours = by_four ? count / 4 : 0;
  for (std::int64_t i = first; i < fours; i += stride) body.template operator()<4>(4 * i);
  for (std::int64_t i = 4 * fours + first; i < count; i += stride) body.template operator()<1>(i);
}

// The same over one row of a matrix, by `threads` threads of which this is one.
template <class Body>
__device__ inline void for_row(int columns, int thread, int threads, bool by_four, Body body) {
  const int fours = by_four ? columns / 4 : 0;
  for (int i = thread; i < fours; i += threads) body.template operator()<4>(4 * i);
  for (int i = 4 * fours + thread; i < columns; i += threads) body.template operator()<1>(i);
}

}  // namespace gpunode::cuda
