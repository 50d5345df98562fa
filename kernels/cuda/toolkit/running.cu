// Running statistics, one thread an element; of a table, a block a row. The same operations in the same order as the CPU's,
// each correctly rounded, so the two agree bit for bit.
#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void measure(BatchnormStatisticsLaunch w) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= w.count) return;
  const float rstd = w.rstd[i];
  const float variance = __fsub_rn(__fdiv_rn(1.0f, __fmul_rn(rstd, rstd)), w.epsilon);
  w.mean_sum[i] = __fmul_rn(w.samples, w.mean[i]);
  // As std::max: a NaN stays one.
  w.variance_sum[i] = __fmul_rn(variance < 0.0f ? 0.0f : variance, w.unbiased);
}

__device__ void approach_one(const FollowLaunch& w, std::int64_t i, float share) {
  const float value = w.values[i];
  const float step = __fsub_rn(__fmul_rn(w.sum[i], w.scale), value);
  w.values[i] = __fadd_rn(value, __fmul_rn(share, step));
}

__global__ void approach(FollowLaunch w) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < w.count) approach_one(w, i, w.share);
}

__global__ void approach_rows(FollowLaunch w) {
  const ops::BlockRow row = w.blocks.rows[blockIdx.x];
  if (!row.is_buffer) return;
  const std::int64_t first = row.begin - w.blocks.origin;
  for (std::int64_t i = threadIdx.x; i < row.count; i += kThreads)
    approach_one(w, first + i, row.share);
}

}  // namespace

cudaError_t launch(const BatchnormStatisticsLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(measure, (work.count + kThreads - 1) / kThreads, kThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const FollowLaunch& work, cudaStream_t stream) {
  if (work.blocks.count > 0) {
    GPUNODE_LAUNCH(approach_rows, work.blocks.count, kThreads, stream, work);
    return cudaGetLastError();
  }
  GPUNODE_LAUNCH(approach, (work.count + kThreads - 1) / kThreads, kThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
