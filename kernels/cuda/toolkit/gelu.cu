// GELU in both its forms and its derivative, one thread four elements. The CPU's operations in the
// CPU's order (kernels/cpu/detail/gelu_body.inc), so the bits agree. Bound by memory: 8 and 12
// bytes an element.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/exact_math.cuh"

namespace gpunode::cuda {
namespace {

constexpr float kGeluA = 0.7978845608f;  // sqrt(2 / pi)
constexpr float kGeluB = 0.044715f;

__device__ float gelu_gate(float x) {
  const float square = x * x;
  const float inner = fmaf(square * x, kGeluB, x);
  return 1.0f / (1.0f + exact_exp(inner * (-2 * kGeluA)));
}

__device__ float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float inner_slope = fmaf(x * x, 6 * kGeluA * kGeluB, 2 * kGeluA);
  return fmaf(x * gate * (1.0f - gate), inner_slope, gate);
}

// The chance that a standard normal number is beyond |x|, and the bell e^(-x^2 / 2).
struct Tail {
  float chance, bell;
};

__device__ Tail normal_tail(float x) {
  const float minus = 0.0f - x, size = x > minus ? x : minus;
  const float t = 1.0f / fmaf(size, 0.3f, 1.0f);
  const float bell = exact_exp(x * x * -0.5f);
  float p = -0.0175491264f;
  p = fmaf(p, t, 0.0943725891f);
  p = fmaf(p, t, -0.18168382f);
  p = fmaf(p, t, 0.122715685f);
  p = fmaf(p, t, -0.0141258145f);
  p = fmaf(p, t, 0.0551560807f);
  p = fmaf(p, t, 0.0956732342f);
  p = fmaf(p, t, 0.105413895f);
  p = fmaf(p, t, 0.120422485f);
  p = fmaf(p, t, 0.119601058f);
  p = fmaf(p, t, 3.73322254e-06f);
  return {bell * p, bell};
}

__device__ float exact_value(float x) {
  const Tail tail = normal_tail(x);
  return x * (x > 0.0f ? 1.0f - tail.chance : tail.chance);
}

__device__ float exact_slope(float x) {
  const Tail tail = normal_tail(x);
  const float below = x > 0.0f ? 1.0f - tail.chance : tail.chance;
  return fmaf(x * tail.bell, 0.3989422804f, below);
}

__global__ void gelu_forward(GeluLaunch pass) {
  for_elements(pass.count, allow_four(pass.x, pass.y), [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> x = load<kCount>(pass.x + i);
    for (float& value : x.at) value = pass.exact ? exact_value(value) : value * gelu_gate(value);
    store(pass.y + i, x);
  });
}

__global__ void gelu_backward(GeluBackwardLaunch pass) {
  for_elements(pass.count, allow_four(pass.dy, pass.x, pass.dx), [&]<int kCount>(std::int64_t i) {
    const Lanes<kCount> x = load<kCount>(pass.x + i);
    Lanes<kCount> slope = load<kCount>(pass.dy + i);
    for (int lane = 0; lane < kCount; ++lane)
      slope.at[lane] *= pass.exact ? exact_slope(x.at[lane]) : gelu_slope(x.at[lane]);
    store(pass.dx + i, slope);
  });
}

}  // namespace

cudaError_t launch(const GeluLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(gelu_forward, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const GeluBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(gelu_backward, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
