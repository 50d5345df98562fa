// One product in float32, c (R, C) = left (R, D) right (D, C), of sides that are read as they are: a
// matrix, its transpose, or what convolutions make of images where it is read. A block has 64 by 64
// entries of c, a thread 4 by 4 of them, and 16 of what is summed over at a time; every entry is summed
// by one thread in order, so there are no atomics. Bound by arithmetic; reading from shared memory is
// two loads of four a 4 by 4 products.
#pragma once

#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda::tiled {

inline constexpr int kThreads = 256;
inline constexpr int kTile = 64;
inline constexpr int kStep = 16;
inline constexpr int kOwn = 4;  // rows and columns of a thread
inline constexpr int kWidth =
    kTile + kOwn;  // of a row in shared memory: lanes are spread over banks

// A side of a product is a matrix of lines (rows of the result, or columns) by what is summed over.
// Line and Deep are what an index means; kDeepFirst: neighbours in memory are neighbours in depth.

struct Matrix {  // (lines, depth)
  static constexpr bool kDeepFirst = true;
  using Line = const float*;
  using Deep = int;
  const float* data;
  int count, depth;
  __device__ int lines() const { return count; }
  __device__ Line line(int index) const { return data + std::int64_t{index} * depth; }
  __device__ Deep deep(int index) const { return index; }
  __device__ float at(Line line, Deep deep) const { return line[deep]; }
};

struct Columns {  // (depth, lines)
  static constexpr bool kDeepFirst = false;
  using Line = int;
  using Deep = const float*;
  const float* data;
  int count;
  __device__ int lines() const { return count; }
  __device__ Line line(int index) const { return index; }
  __device__ Deep deep(int index) const { return data + std::int64_t{index} * count; }
  __device__ float at(Line line, Deep deep) const { return deep[line]; }
};

// Brings 64 lines of a side to shared memory, 16 deep at a time.
template <class Side>
struct TileReader {
  static constexpr int kLines = Side::kDeepFirst ? kOwn : 1, kDeeps = Side::kDeepFirst ? 1 : kOwn;
  const Side& side;
  typename Side::Line lines[kLines];
  int first_line;

  __device__ static int own_line(int n) {
    return Side::kDeepFirst ? static_cast<int>(threadIdx.x) / kStep + kThreads / kStep * n
                            : static_cast<int>(threadIdx.x) % kTile;
  }
  __device__ static int own_deep(int n) {
    return Side::kDeepFirst ? static_cast<int>(threadIdx.x) % kStep
                            : static_cast<int>(threadIdx.x) / kTile + kThreads / kTile * n;
  }
  __device__ TileReader(const Side& of, int first) : side(of), first_line(first) {
    for (int n = 0; n < kLines; ++n) {
      const int index = first_line + own_line(n);
      lines[n] = side.line(index < side.lines() ? index : 0);
    }
  }
  __device__ void read(float (&tile)[kStep][kWidth], int first, int end) const {
    for (int m = 0; m < kDeeps; ++m) {
      const int deep = own_deep(m);
      const bool there = first + deep < end;
      const typename Side::Deep place = side.deep(there ? first + deep : 0);
      for (int n = 0; n < kLines; ++n) {
        const int line = own_line(n);
        tile[deep][line] =
            there && first_line + line < side.lines() ? side.at(lines[n], place) : 0.0f;
      }
    }
  }
};

// Calls store(row, column, sum) for the entries that a block has, of sums over [first, end) of what is
// summed over.
template <class Left, class Right, class Store>
__device__ void multiply(const Left& left, const Right& right, int tile, int first, int end,
                         Store store) {
  alignas(16) __shared__ float left_tile[kStep][kWidth];
  alignas(16) __shared__ float right_tile[kStep][kWidth];
  const int tiles_across = (right.lines() + kTile - 1) / kTile;
  const int top = tile / tiles_across * kTile, begin = tile % tiles_across * kTile;
  const TileReader<Left> rows(left, top);
  const TileReader<Right> columns(right, begin);
  const int row = static_cast<int>(threadIdx.x) / 16 * kOwn;
  const int column = static_cast<int>(threadIdx.x) % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int at = first; at < end; at += kStep) {
    rows.read(left_tile, at, end);
    columns.read(right_tile, at, end);
    __syncthreads();
    for (int k = 0; k < kStep; ++k) {
      const Lanes<kOwn> a = load<kOwn>(&left_tile[k][row]), b = load<kOwn>(&right_tile[k][column]);
      for (int i = 0; i < kOwn; ++i)
        for (int j = 0; j < kOwn; ++j) sums[i][j] = fmaf(a.at[i], b.at[j], sums[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const int to = top + row + i, across = begin + column + j;
      if (to < left.lines() && across < right.lines()) store(to, across, sums[i][j]);
    }
}

// A store of a result (rows, columns).
struct Entries {
  float* out;
  int columns;
  __device__ void operator()(int row, int column, float sum) const {
    out[std::int64_t{row} * columns + column] = sum;
  }
};

// Blocks for so many rows and columns.
inline std::int64_t tiles(std::int64_t rows, std::int64_t columns) {
  return (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
}

}  // namespace gpunode::cuda::tiled
