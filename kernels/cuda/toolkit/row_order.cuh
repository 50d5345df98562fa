// Sums over rows in their order, many columns at once: the bits of a loop over rows. One thread a
// column alone would wait for memory at every row, so all threads of a block fetch a tile of rows
// for a few columns while the first few add up the tile before it, out of shared memory.
#pragma once

#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {

constexpr int kRowOrderThreads = 256;
constexpr int kTileColumns = 16;                              // 64 bytes of a row
constexpr int kRowsAtOnce = kRowOrderThreads / kTileColumns;  // fetched by one round of loads
constexpr int kRowRounds = 4;                                 // loads a thread has under way
constexpr int kTileRows = kRowRounds * kRowsAtOnce;

template <int kValues>
struct RowTile {
  Lanes<kValues> at[kTileRows][kTileColumns];
};

inline std::int64_t row_order_blocks(std::int64_t columns) {
  return (columns + kTileColumns - 1) / kTileColumns;
}

// total = fold over rows of join(total, fetch(row, column)) from zero, then finish(column, total),
// for the columns of this block; kValues values each. `tile` is shared memory.
template <int kValues, class Fetch, class Join, class Finish>
__device__ inline void sum_in_row_order(RowTile<kValues>& tile, std::int64_t rows,
                                        std::int64_t columns, Fetch fetch, Join join,
                                        Finish finish) {
  const int within = threadIdx.x % kTileColumns, lane_row = threadIdx.x / kTileColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + within;
  Lanes<kValues> next[kRowRounds] = {};
  const auto fetch_tile = [&](std::int64_t first) {
    for (int round = 0; round < kRowRounds; ++round) {
      const std::int64_t row = first + round * kRowsAtOnce + lane_row;
      if (row < rows && column < columns) next[round] = fetch(row, column);
    }
  };
  Lanes<kValues> total = {};
  fetch_tile(0);
  for (std::int64_t first = 0; first < rows; first += kTileRows) {
    for (int round = 0; round < kRowRounds; ++round)
      tile.at[round * kRowsAtOnce + lane_row][within] = next[round];
    __syncthreads();
    fetch_tile(first + kTileRows);
    if (lane_row == 0) {
      const int count = rows - first < kTileRows ? static_cast<int>(rows - first) : kTileRows;
      for (int row = 0; row < count; ++row) join(total, tile.at[row][within]);
    }
    __syncthreads();
  }
  if (lane_row == 0 && column < columns) finish(column, total);
}

}  // namespace gpunode::cuda
