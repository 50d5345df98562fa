// Sums of squares in float64 with the CPU's bits: sixteen interleaved sums a row of elements,
// each one thread's chain, then halves added 8, 4, 2 and 1 lanes apart. A chain cannot be cut, so
// speed comes from many rows of a table in one launch: 4,000 of 32,768 keep every GPU at its
// memory's speed, while one alone waits for its 2,048 additions in a row.
#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {
namespace {

constexpr int kLanes = 16;  // sums a block of elements
constexpr int kSumThreads = 64;
constexpr int kAhead = 16;  // loads a thread has under way

__global__ void sum_squares(SquareSumLaunch work) {
  __shared__ double sums[kSumThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const std::int64_t block =
      static_cast<std::int64_t>(blockIdx.x) * (kSumThreads / kLanes) + thread / kLanes;
  const bool has_table = work.blocks.count > 0;
  const bool is_one = block < (has_table ? work.blocks.count : 1);
  std::int64_t begin = 0, size = is_one ? work.count : 0;
  if (has_table && is_one) {
    begin = work.blocks.rows[block].begin - work.blocks.origin;
    size = work.blocks.rows[block].count;
  }
  const float* x = work.x + begin;
  double sum = 0;
  std::int64_t i = lane;
  for (; i + (kAhead - 1) * kLanes < size; i += kAhead * kLanes) {
    float ahead[kAhead];
    for (int j = 0; j < kAhead; ++j) ahead[j] = x[i + j * kLanes];
    for (float value : ahead) sum = __fma_rn(double{value}, double{value}, sum);
  }
  for (; i < size; i += kLanes) sum = __fma_rn(double{x[i]}, double{x[i]}, sum);
  sums[thread] = sum;
  for (int half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) sums[thread] = sums[thread] + sums[thread + half];
  }
  if (lane == 0 && is_one) work.sums[block] = sums[thread];
}

}  // namespace

cudaError_t launch(const SquareSumLaunch& work, cudaStream_t stream) {
  constexpr int kAtOnce = kSumThreads / kLanes;
  const std::int64_t blocks = work.blocks.count > 0 ? work.blocks.count : 1;
  GPUNODE_LAUNCH(sum_squares, (blocks + kAtOnce - 1) / kAtOnce, kSumThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
