// SwiGLU and its derivative: a block of threads walks down whole rows, four elements a thread. The
// CPU's operations in the CPU's order, so the bits agree. Bound by memory: 12 and 20 bytes a value.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/exact_math.cuh"

namespace gpunode::cuda {
namespace {

__device__ float logistic(float x) {
  return 1.0f / (1.0f + exact_exp(0.0f - x));
}

__global__ void swiglu_rows(SwigluLaunch pass) {
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.x, pass.y);
  for (std::int64_t row = blockIdx.x; row < pass.rows; row += gridDim.x) {
    const float *gates = pass.x + row * 2 * pass.columns, *ups = gates + pass.columns;
    float* y = pass.y + row * pass.columns;
    for_row(pass.columns, static_cast<int>(threadIdx.x), kElementThreads, by_four,
            [&]<int kCount>(int i) {
              Lanes<kCount> gate = load<kCount>(gates + i);
              const Lanes<kCount> up = load<kCount>(ups + i);
              for (int lane = 0; lane < kCount; ++lane)
                gate.at[lane] = gate.at[lane] * logistic(gate.at[lane]) * up.at[lane];
              store(y + i, gate);
            });
  }
}

__global__ void swiglu_backward_rows(SwigluBackwardLaunch pass) {
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.dy, pass.x, pass.dx);
  for (std::int64_t row = blockIdx.x; row < pass.rows; row += gridDim.x) {
    const float* dys = pass.dy + row * pass.columns;
    const float *gates = pass.x + row * 2 * pass.columns, *ups = gates + pass.columns;
    float *dgates = pass.dx + row * 2 * pass.columns, *dups = dgates + pass.columns;
    for_row(pass.columns, static_cast<int>(threadIdx.x), kElementThreads, by_four,
            [&]<int kCount>(int i) {
              const Lanes<kCount> dy = load<kCount>(dys + i);
              Lanes<kCount> gate = load<kCount>(gates + i), up = load<kCount>(ups + i);
              for (int lane = 0; lane < kCount; ++lane) {
                const float share = logistic(gate.at[lane]), silu = gate.at[lane] * share;
                gate.at[lane] = dy.at[lane] * up.at[lane] * fmaf(silu, 1.0f - share, share);
                up.at[lane] = dy.at[lane] * silu;
              }
              store(dgates + i, gate);
              store(dups + i, up);
            });
  }
}

std::int64_t row_blocks(int rows) {
  return rows < kElementBlocks ? rows : kElementBlocks;
}

}  // namespace

cudaError_t launch(const SwigluLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(swiglu_rows, row_blocks(work.rows), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const SwigluBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(swiglu_backward_rows, row_blocks(work.rows), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
