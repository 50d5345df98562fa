// AdamW, one thread an element. The same operations in the same order as the CPU's, each correctly
// rounded, so the two agree bit for bit.
#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void update(AdamwLaunch u) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= u.count) return;
  const float gradient = __fmul_rn(u.gradient[i], u.scale);
  const float first = __fmaf_rn(u.beta1, u.first[i], __fmul_rn(__fsub_rn(1.0f, u.beta1), gradient));
  const float second = __fmaf_rn(
      u.beta2, u.second[i], __fmul_rn(__fsub_rn(1.0f, u.beta2), __fmul_rn(gradient, gradient)));
  const float mean = __fmul_rn(first, u.upscale1);
  const float deviation = __fadd_rn(__fsqrt_rn(__fmul_rn(second, u.upscale2)), u.epsilon);
  const float change = __fmaf_rn(u.decay, u.weights[i], __fdiv_rn(mean, deviation));
  u.weights[i] = __fsub_rn(u.weights[i], __fmul_rn(u.rate, change));
  u.first[i] = first;
  u.second[i] = second;
}

}  // namespace

cudaError_t launch(const AdamwLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(update, (work.count + kThreads - 1) / kThreads, kThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
