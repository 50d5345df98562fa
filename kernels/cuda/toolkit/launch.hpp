// The border to nvcc: what a kernel gets, as plain pointers and numbers, and how to start it. The
// .cu files see nothing else of this project, which keeps nvcc quick and away from our C++20.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Starts `blocks` blocks of `threads` threads. The tests' emulation defines it in its own way, to
// run the same kernels where there is no GPU.
#ifndef GPUNODE_LAUNCH
#define GPUNODE_LAUNCH(kernel, blocks, threads, stream, work) \
  kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(work)
#endif

namespace gpunode::cuda {

struct LayernormLaunch {
  const float *x, *weight, *bias;  // (T, C), (C), (C)
  float *y, *mean, *rstd;          // (T, C), (T), (T)
  int rows, columns;
  float epsilon;
};
cudaError_t launch(const LayernormLaunch& work, cudaStream_t stream);

struct LayernormBackwardLaunch {
  const float *dy, *x, *weight, *mean, *rstd;
  float *dx, *dweight, *dbias;
  int rows, columns;
};
cudaError_t launch(const LayernormBackwardLaunch& work, cudaStream_t stream);

struct AdamwLaunch {
  const float* gradient;
  float *weights, *first, *second;
  std::int64_t count;
  float scale, rate, beta1, beta2, epsilon, decay, upscale1, upscale2;
};
cudaError_t launch(const AdamwLaunch& work, cudaStream_t stream);

}  // namespace gpunode::cuda
