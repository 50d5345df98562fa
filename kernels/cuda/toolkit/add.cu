// Sums of two or three arrays, and the sum over rows in their order: the CPU's bits for both.
// Bound by memory; the chain of additions a column has is hidden behind the loads of the next tile.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"

namespace gpunode::cuda {
namespace {

__global__ void add_elements(AddLaunch sum) {
  const bool by_four = allow_four(sum.a, sum.b, sum.c, sum.out);
  for_elements(sum.count, by_four, [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> total = load<kCount>(sum.a + i);
    const Lanes<kCount> b = load<kCount>(sum.b + i);
    for (int lane = 0; lane < kCount; ++lane) total.at[lane] += b.at[lane];
    if (sum.c) {
      const Lanes<kCount> c = load<kCount>(sum.c + i);
      for (int lane = 0; lane < kCount; ++lane) total.at[lane] += c.at[lane];
    }
    store(sum.out + i, total);
  });
}

__global__ void sum_columns(ColumnSumLaunch sum) {
  __shared__ RowTile<1> tile;
  sum_in_row_order(
      tile, sum.rows, sum.columns,
      [&](std::int64_t row, std::int64_t column) {
        return Lanes<1>{sum.x[row * sum.columns + column]};
      },
      [](Lanes<1>& total, const Lanes<1>& value) { total.at[0] += value.at[0]; },
      [&](std::int64_t column, const Lanes<1>& total) { sum.out[column] = total.at[0]; });
}

}  // namespace

cudaError_t launch(const AddLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(add_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const ColumnSumLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(sum_columns, row_order_blocks(work.columns), kRowOrderThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
