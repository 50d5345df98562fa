// Tiles of float32 rows in shared memory and products of them with plain fused multiply-adds: what
// the kernels of attention_f32.cu are made of.
//
// Thread (y, x) of 16 x 8 has P = kOwn rows of its block, y + 16 * i, and of scores against a step's
// rows columns x + 8 * j, of sums D wide columns 4 * x + 32 * n + (0 .. 3). The eight threads of a
// row lie in one warp, so weights go through shared memory without a barrier of the block. Rows of
// tiles are D + 4 floats apart, so that eight rows lie in all banks: no conflicts.
#pragma once

#include "kernels/cuda/toolkit/attention_rows.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

namespace gpunode::cuda::f32 {

inline constexpr int kThreads = 128;
inline constexpr int kStep = 32;  // rows of the other side a step
inline constexpr int kWeights =
    kStep + 8;  // floats of a row of weights, so that four rows lie in all banks
inline constexpr unsigned kAllLanes = 0xffffffff;

template <int D>
constexpr int kRows = D <= 64 ? 64 : 32;  // of a block
template <int D>
constexpr int kOwn = kRows<D> / 16;  // of a thread
template <int D>
constexpr int kWidth = D + 4;  // floats of a row of a tile

// Whether rows may be read and written four floats at a time. The arithmetic is the same for both.
template <class Element>
__device__ __forceinline__ bool in_fours(const HeadRows<Element>& rows) {
  return rows.depth % 4 == 0 && rows.stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(rows.start) % 16 == 0;
}

// Columns `column` to `column` + 3 of a row that is `depth` long; zero beyond.
__device__ __forceinline__ float4 load_four(const float* row, int column, int depth, bool by_four) {
  if (by_four) return *reinterpret_cast<const float4*>(row + column);
  float4 four = make_float4(0, 0, 0, 0);
  four.x = row[column];
  if (column + 1 < depth) four.y = row[column + 1];
  if (column + 2 < depth) four.z = row[column + 2];
  if (column + 3 < depth) four.w = row[column + 3];
  return four;
}
__device__ __forceinline__ void store_four(float* row, int column, int depth, bool by_four,
                                           const float4& four) {
  if (by_four) {
    *reinterpret_cast<float4*>(row + column) = four;
    return;
  }
  row[column] = four.x;
  if (column + 1 < depth) row[column + 1] = four.y;
  if (column + 2 < depth) row[column + 2] = four.z;
  if (column + 3 < depth) row[column + 3] = four.w;
}

// Copies `count` rows from `first` on; rows from `length` on, and what is beyond the depth, become
// zero.
template <int D>
__device__ __forceinline__ void copy_rows(float* tile, const HeadRows<const float>& from, int first,
                                          int count, int length) {
  constexpr int kChunks = D / 4;
  const bool by_four = in_fours(from);
  for (int i = threadIdx.x; i < count * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * 4;
    float4 values = make_float4(0, 0, 0, 0);
    if (first + row < length && column < from.depth)
      values = load_four(from.start + (first + row) * from.stride, column, from.depth, by_four);
    *reinterpret_cast<float4*>(tile + row * kWidth<D> + column) = values;
  }
}

// Products of this thread's rows of `left` with four rows of `right`, both D long.
template <int D, int P>
__device__ __forceinline__ void multiply_rows(float (&products)[P][4], const float* left,
                                              const float* right) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  GPUNODE_UNROLL
  for (int n = 0; n < 4 * P; ++n) products[n / 4][n % 4] = 0;
  for (int d = 0; d < D; d += 4) {
    float4 a[P], b[4];
    GPUNODE_UNROLL
    for (int i = 0; i < P; ++i)
      a[i] = *reinterpret_cast<const float4*>(left + (row + 16 * i) * kWidth<D> + d);
    GPUNODE_UNROLL
    for (int j = 0; j < 4; ++j)
      b[j] = *reinterpret_cast<const float4*>(right + (column + 8 * j) * kWidth<D> + d);
    GPUNODE_UNROLL
    for (int n = 0; n < 4 * P; ++n) {
      const int i = n / 4, j = n % 4;
      float sum = products[i][j];
      sum = fmaf(a[i].x, b[j].x, sum);
      sum = fmaf(a[i].y, b[j].y, sum);
      sum = fmaf(a[i].z, b[j].z, sum);
      products[i][j] = fmaf(a[i].w, b[j].w, sum);
    }
  }
}

// Hands this thread's weights to the others of its rows, which are in its warp.
template <int P>
__device__ __forceinline__ void share_weights(float* weights, const float (&values)[P][4]) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  __syncwarp();  // nobody reads those before
  GPUNODE_UNROLL
  for (int n = 0; n < 4 * P; ++n)
    weights[(row + 16 * (n / 4)) * kWeights + column + 8 * (n % 4)] = values[n / 4][n % 4];
  __syncwarp();
}

// sums += weights (rows, 32) times rows of `right` (32, D), in order of the rows.
template <int D, int P>
__device__ __forceinline__ void multiply_columns(float (&sums)[P][D / 8], const float* weights,
                                                 const float* right) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  for (int k = 0; k < kStep; k += 4) {
    float4 four[P];
    GPUNODE_UNROLL
    for (int i = 0; i < P; ++i)
      four[i] = *reinterpret_cast<const float4*>(weights + (row + 16 * i) * kWeights + k);
    GPUNODE_UNROLL
    for (int each = 0; each < 4 * (D / 32); ++each) {
      const int part = each / (D / 32), n = each % (D / 32);
      const float4 values =
          *reinterpret_cast<const float4*>(right + (k + part) * kWidth<D> + 4 * column + 32 * n);
      GPUNODE_UNROLL
      for (int i = 0; i < P; ++i) {
        const float weight = part == 0   ? four[i].x
                             : part == 1 ? four[i].y
                             : part == 2 ? four[i].z
                                         : four[i].w;
        sums[i][4 * n] = fmaf(weight, values.x, sums[i][4 * n]);
        sums[i][4 * n + 1] = fmaf(weight, values.y, sums[i][4 * n + 1]);
        sums[i][4 * n + 2] = fmaf(weight, values.z, sums[i][4 * n + 2]);
        sums[i][4 * n + 3] = fmaf(weight, values.w, sums[i][4 * n + 3]);
      }
    }
  }
}

// Writes this thread's part of the block's rows, times `scale[i]`; zero from `length` on.
template <int P, int N>
__device__ __forceinline__ void store_rows(const HeadRows<float>& to, const BlockRows& rows,
                                           int positions, const float (&values)[P][N],
                                           const float (&scale)[P]) {
  const bool by_four = in_fours(to);
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    const int mine = rows.first + static_cast<int>(threadIdx.x / 8) + 16 * i;
    if (mine >= positions) continue;
    const float factor = mine < rows.length ? scale[i] : 0.0f;
    GPUNODE_UNROLL
    for (int n = 0; n < N / 4; ++n) {
      const int column = 4 * static_cast<int>(threadIdx.x % 8) + 32 * n;
      if (column >= to.depth) continue;
      store_four(to.start + mine * to.stride, column, to.depth, by_four,
                 make_float4(values[i][4 * n] * factor, values[i][4 * n + 1] * factor,
                             values[i][4 * n + 2] * factor, values[i][4 * n + 3] * factor));
    }
  }
}

template <int P, int N>
__device__ __forceinline__ void clear(float (&values)[P][N]) {
  GPUNODE_UNROLL
  for (int n = 0; n < P * N; ++n) values[n / N][n % N] = 0;
}

// Over the eight threads of a row.
__device__ __forceinline__ float row_sum(float value) {
  GPUNODE_UNROLL
  for (int other = 1; other < 8; other *= 2) value += __shfl_xor_sync(kAllLanes, value, other);
  return value;
}

}  // namespace gpunode::cuda::f32
