// Root-mean-square normalisation: one block of threads a row, whose sum follows one tree. Backward,
// the weight's gradient adds rows in order and has the bits of that order, whatever the GPU.
#include "kernels/cuda/toolkit/block_fold.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kNormThreads = 128;

__global__ void rmsnorm_rows(RmsnormLaunch pass) {
  __shared__ float parts[kNormThreads];
  const std::int64_t row = blockIdx.x, begin = row * pass.columns;
  const float* x = pass.x + begin;
  float squares = 0;
  for (int i = threadIdx.x; i < pass.columns; i += kNormThreads)
    squares = fmaf(x[i], x[i], squares);
  const float inverse = 1.0f / static_cast<float>(pass.columns);
  const float rstd = 1.0f / sqrtf(block_sum<kNormThreads>(parts, squares) * inverse + pass.epsilon);
  for (int i = threadIdx.x; i < pass.columns; i += kNormThreads)
    pass.y[begin + i] = x[i] * rstd * pass.weight[i];
  if (threadIdx.x == 0) pass.rstd[row] = rstd;
}

__global__ void rmsnorm_backward_rows(RmsnormBackwardLaunch pass) {
  __shared__ float parts[kNormThreads];
  const std::int64_t row = blockIdx.x, begin = row * pass.columns;
  const float rstd = pass.rstd[row];
  float products = 0;
  for (int i = threadIdx.x; i < pass.columns; i += kNormThreads)
    products = fmaf(pass.dy[begin + i] * pass.weight[i], pass.x[begin + i] * rstd, products);
  const float inverse = 1.0f / static_cast<float>(pass.columns);
  const float mean_product = block_sum<kNormThreads>(parts, products) * inverse;
  for (int i = threadIdx.x; i < pass.columns; i += kNormThreads) {
    const float slope = pass.dy[begin + i] * pass.weight[i];
    pass.dx[begin + i] += (slope - pass.x[begin + i] * rstd * mean_product) * rstd;
  }
}

__global__ void rmsnorm_backward_columns(RmsnormBackwardLaunch pass) {
  __shared__ RowTile<2> tile;
  sum_in_row_order(
      tile, pass.rows, pass.columns,
      [&](std::int64_t row, std::int64_t column) {
        const std::int64_t place = row * pass.columns + column;
        return Lanes<2>{pass.dy[place], pass.x[place] * pass.rstd[row]};
      },
      [](Lanes<2>& total, const Lanes<2>& value) {
        total.at[0] = fmaf(value.at[0], value.at[1], total.at[0]);
      },
      [&](std::int64_t column, const Lanes<2>& total) { pass.dweight[column] = total.at[0]; });
}

}  // namespace

cudaError_t launch(const RmsnormLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(rmsnorm_rows, work.rows, kNormThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const RmsnormBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(rmsnorm_backward_rows, work.rows, kNormThreads, stream, work);
  GPUNODE_LAUNCH(rmsnorm_backward_columns, row_order_blocks(work.columns), kRowOrderThreads, stream,
                 work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
