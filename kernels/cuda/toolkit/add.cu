// Sums of two or three arrays, and the sum over rows, in blocks of them: the CPU's bits for both.
// Bound by memory.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

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

__host__ __device__ inline std::int64_t sum_blocks(const ColumnSumLaunch& sum) {
  return (sum.rows + sum.block - 1) / sum.block;
}

// One thread a column of a block of rows, with many loads under way.
__global__ void sum_block_columns(ColumnSumLaunch sum) {
  constexpr int kAhead = 16;
  const std::int64_t tiles = (sum.columns + kElementThreads - 1) / kElementThreads;
  const std::int64_t block = blockIdx.x / tiles;
  const std::int64_t column = blockIdx.x % tiles * kElementThreads + threadIdx.x;
  if (column >= sum.columns) return;
  const std::int64_t first = block * sum.block;
  const std::int64_t end = first + sum.block < sum.rows ? first + sum.block : sum.rows;
  const float* x = sum.x + column;
  float total = 0;
  for (std::int64_t base = first; base < end; base += kAhead) {
    float next[kAhead];
    GPUNODE_UNROLL
    for (int i = 0; i < kAhead; ++i) next[i] = base + i < end ? x[(base + i) * sum.columns] : 0.0f;
    GPUNODE_UNROLL
    for (int i = 0; i < kAhead; ++i)
      if (base + i < end) total += next[i];
  }
  (sum.rows > sum.block ? sum.parts : sum.out)[block * sum.columns + column] = total;
}

__global__ void add_block_sums(ColumnSumLaunch sum) {
  __shared__ RowTile<1> tile;
  sum_in_row_order(
      tile, sum_blocks(sum), sum.columns,
      [&](std::int64_t row, std::int64_t column) {
        return Lanes<1>{sum.parts[row * sum.columns + column]};
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
  const std::int64_t tiles = (work.columns + kElementThreads - 1) / kElementThreads;
  GPUNODE_LAUNCH(sum_block_columns, tiles * sum_blocks(work), kElementThreads, stream, work);
  if (work.rows > work.block)
    GPUNODE_LAUNCH(add_block_sums, row_order_blocks(work.columns), kRowOrderThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
