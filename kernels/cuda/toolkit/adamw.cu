// AdamW, one thread an element, or all rows of a table in one launch, a few blocks a row. The same operations in the same order as the CPU's, each correctly
// rounded, so the two agree bit for bit.
#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kParts = 8;  // blocks that share a row

__device__ void update_one(const AdamwLaunch& u, std::int64_t i, float decay) {
  const float gradient = __fmul_rn(u.gradient[i], u.scale);
  const float first = __fmaf_rn(u.beta1, u.first[i], __fmul_rn(__fsub_rn(1.0f, u.beta1), gradient));
  const float second = __fmaf_rn(
      u.beta2, u.second[i], __fmul_rn(__fsub_rn(1.0f, u.beta2), __fmul_rn(gradient, gradient)));
  const float mean = __fmul_rn(first, u.upscale1);
  const float deviation = __fadd_rn(__fsqrt_rn(__fmul_rn(second, u.upscale2)), u.epsilon);
  const float change = __fmaf_rn(decay, u.weights[i], __fdiv_rn(mean, deviation));
  u.weights[i] = __fsub_rn(u.weights[i], __fmul_rn(u.rate, change));
  u.first[i] = first;
  u.second[i] = second;
}

__global__ void update(AdamwLaunch u) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < u.count) update_one(u, i, u.decay);
}

__global__ void update_rows(AdamwLaunch u) {
  const ops::BlockRow row = u.blocks.rows[blockIdx.x / kParts];
  if (row.is_buffer) return;
  const std::int64_t first = row.begin - u.blocks.origin;
  for (std::int64_t i = blockIdx.x % kParts * kThreads + threadIdx.x; i < row.count;
       i += kParts * kThreads)
    update_one(u, first + i, row.decay);
}

}  // namespace

cudaError_t launch(const AdamwLaunch& work, cudaStream_t stream) {
  if (work.blocks.count > 0) {
    GPUNODE_LAUNCH(update_rows, work.blocks.count * kParts, kThreads, stream, work);
    return cudaGetLastError();
  }
  GPUNODE_LAUNCH(update, (work.count + kThreads - 1) / kThreads, kThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
