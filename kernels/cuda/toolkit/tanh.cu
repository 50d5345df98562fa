// The hyperbolic tangent and its derivative: the CPU's operations in the CPU's order
// (kernels/cpu/detail/tanh_body.inc), so the bits agree. Bound by memory: 8 and 12 bytes an
// element.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/exact_math.cuh"

namespace gpunode::cuda {
namespace {

__device__ float exact_tanh(float x) {
  const float minus = 0.0f - x, size = x > minus ? x : minus, square = x * x;
  float small = -0.0058496439f;
  small = fmaf(small, square, 0.0207513491f);
  small = fmaf(small, square, -0.0537679835f);
  small = fmaf(small, square, 0.133316796f);
  small = fmaf(small, square, -0.333332828f);
  small = fmaf(small * square, x, x);
  const float rest = exact_exp(size * -2.0f);
  const float large = (1.0f - rest) / (1.0f + rest);
  return size - 0.6f > 0.0f ? (x > 0.0f ? large : 0.0f - large) : small;
}

__global__ void tanh_elements(TanhLaunch pass) {
  for_elements(pass.count, allow_four(pass.x, pass.y), [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> x = load<kCount>(pass.x + i);
    for (float& value : x.at) value = exact_tanh(value);
    store(pass.y + i, x);
  });
}

__global__ void tanh_backward_elements(TanhBackwardLaunch pass) {
  for_elements(pass.count, allow_four(pass.dy, pass.y, pass.dx), [&]<int kCount>(std::int64_t i) {
    const Lanes<kCount> y = load<kCount>(pass.y + i);
    Lanes<kCount> slope = load<kCount>(pass.dy + i);
    for (int lane = 0; lane < kCount; ++lane) slope.at[lane] *= 1.0f - y.at[lane] * y.at[lane];
    store(pass.dx + i, slope);
  });
}

}  // namespace

cudaError_t launch(const TanhLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(tanh_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const TanhBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(tanh_backward_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
