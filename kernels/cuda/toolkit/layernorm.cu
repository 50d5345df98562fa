// Layer normalisation: one block of threads a row. Sums over a row follow one tree (thread t adds
// every 128th element, then halves are added), sums over rows go in order in one thread a column,
// so the bits do not depend on how the GPU schedules blocks.
#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {
namespace {

constexpr int kThreads = 128;

// The sum of one value a thread, known to all threads afterwards.
__device__ float block_sum(float value) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = parts[0];
  __syncthreads();  // the next call writes the same place
  return sum;
}

__global__ void forward_rows(LayernormLaunch rows) {
  const std::size_t row = blockIdx.x;
  const float* x = rows.x + row * rows.columns;
  float* y = rows.y + row * rows.columns;
  float sum = 0;
  for (int i = threadIdx.x; i < rows.columns; i += kThreads) sum += x[i];
  const float mean = block_sum(sum) / rows.columns;
  float squares = 0;
  for (int i = threadIdx.x; i < rows.columns; i += kThreads)
    squares = fmaf(x[i] - mean, x[i] - mean, squares);
  const float rstd = 1.0f / sqrtf(block_sum(squares) / rows.columns + rows.epsilon);
  for (int i = threadIdx.x; i < rows.columns; i += kThreads)
    y[i] = fmaf((x[i] - mean) * rstd, rows.weight[i], rows.bias[i]);
  if (threadIdx.x == 0) {
    rows.mean[row] = mean;
    rows.rstd[row] = rstd;
  }
}

__global__ void backward_rows(LayernormBackwardLaunch pass) {
  const std::size_t row = blockIdx.x;
  const std::size_t start = row * pass.columns;
  const float mean = pass.mean[row], rstd = pass.rstd[row];
  float slopes = 0, products = 0;
  for (int i = threadIdx.x; i < pass.columns; i += kThreads) {
    const float slope = pass.dy[start + i] * pass.weight[i];
    slopes += slope;
    products = fmaf(slope, (pass.x[start + i] - mean) * rstd, products);
  }
  const float mean_slope = block_sum(slopes) / pass.columns;
  const float mean_product = block_sum(products) / pass.columns;
  for (int i = threadIdx.x; i < pass.columns; i += kThreads) {
    const float normal = (pass.x[start + i] - mean) * rstd;
    const float slope = pass.dy[start + i] * pass.weight[i];
    pass.dx[start + i] += (slope - mean_slope - normal * mean_product) * rstd;
  }
}

__global__ void backward_columns(LayernormBackwardLaunch pass) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= pass.columns) return;
  float dweight = 0, dbias = 0;
  for (int row = 0; row < pass.rows; ++row) {
    const std::size_t place = static_cast<std::size_t>(row) * pass.columns + column;
    const float normal = (pass.x[place] - pass.mean[row]) * pass.rstd[row];
    dweight = fmaf(pass.dy[place], normal, dweight);
    dbias += pass.dy[place];
  }
  pass.dweight[column] = dweight;
  pass.dbias[column] = dbias;
}

}  // namespace

cudaError_t launch(const LayernormLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(forward_rows, work.rows, kThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const LayernormBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(backward_rows, work.rows, kThreads, stream, work);
  const int blocks = (work.columns + kThreads - 1) / kThreads;
  GPUNODE_LAUNCH(backward_columns, blocks, kThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
