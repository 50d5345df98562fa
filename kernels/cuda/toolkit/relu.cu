// The rectifier and its derivative, with the CPU's bits; a NaN stays one on the way forward.
// Bound by memory: 8 and 12 bytes an element.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

__global__ void relu_elements(ReluLaunch pass) {
  for_elements(pass.count, allow_four(pass.x, pass.y), [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> x = load<kCount>(pass.x + i);
    for (float& value : x.at) value = 0.0f > value ? 0.0f : value;
    store(pass.y + i, x);
  });
}

__global__ void relu_backward_elements(ReluBackwardLaunch pass) {
  for_elements(pass.count, allow_four(pass.dy, pass.y, pass.dx), [&]<int kCount>(std::int64_t i) {
    const Lanes<kCount> y = load<kCount>(pass.y + i);
    Lanes<kCount> slope = load<kCount>(pass.dy + i);
    for (int lane = 0; lane < kCount; ++lane)
      slope.at[lane] = y.at[lane] > 0.0f ? slope.at[lane] : 0.0f;
    store(pass.dx + i, slope);
  });
}

}  // namespace

cudaError_t launch(const ReluLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(relu_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const ReluBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(relu_backward_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
