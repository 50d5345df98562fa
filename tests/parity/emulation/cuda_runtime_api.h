// What our kernels use of the CUDA runtime, for the host: a block is one std::thread a CUDA thread
// with a barrier between them, and blocks run one after the other, so a __shared__ array is a
// static one. Found before the real header by tests/parity only.
#pragma once

#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0 };
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

#define __global__
#define __device__
#define __shared__ static

struct Extent {
  unsigned x = 0;
};
inline thread_local Extent threadIdx, blockIdx, blockDim;
inline thread_local std::barrier<>* block_barrier = nullptr;
inline void __syncthreads() {
  block_barrier->arrive_and_wait();
}

inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

template <class Kernel, class Work>
void emulate_launch(Kernel kernel, unsigned blocks, unsigned threads, const Work& work) {
  std::barrier<> barrier(threads);
  std::vector<std::thread> block;
  for (unsigned thread = 0; thread < threads; ++thread)
    block.emplace_back([&, thread] {
      threadIdx.x = thread;
      blockDim.x = threads;
      block_barrier = &barrier;
      for (unsigned index = 0; index < blocks; ++index) {
        blockIdx.x = index;
        kernel(work);
        barrier.arrive_and_wait();
      }
    });
  for (std::thread& thread : block) thread.join();
}
#define GPUNODE_LAUNCH(kernel, blocks, threads, stream, work) \
  (static_cast<void>(stream), emulate_launch(kernel, static_cast<unsigned>(blocks), threads, work))
