// One value a thread folded over a block by a fixed tree (halves joined), in shared memory that the
// kernel brings: kThreads floats, a power of two, of its own for each fold.
#pragma once

#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {

// Known to all threads afterwards.
template <int kThreads, class Join>
__device__ inline float block_fold(float* parts, float value, Join join) {
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  return parts[0];
}

template <int kThreads>
__device__ inline float block_sum(float* parts, float value) {
  return block_fold<kThreads>(parts, value, [](float a, float b) { return a + b; });
}

}  // namespace gpunode::cuda
