// Tiles of bf16 rows in shared memory, and a warp's products of them: what the forward and backward
// kernels of flash_attention.cu are made of. A warp has 16 rows of one side; of the other side it
// takes a step's rows, in fragments as warp.cuh describes them. A lane's part of a (16, 8*N) sum is
// [N][4] registers.
#pragma once

#include "kernels/cuda/toolkit/attention_rows.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

namespace gpunode::cuda::flash {

inline constexpr int kThreads = 128;
inline constexpr int kRows = 64;  // of a block
inline constexpr unsigned kAllLanes = 0xffffffff;

// The other side's rows a step: with a depth of 128, sums leave registers for no more than 32.
template <int D>
constexpr int kStep = D <= 64 ? 64 : 32;
// Bytes of a tile in shared memory.
template <int D>
constexpr unsigned kRowsBytes = kRows* D * 2;
template <int D>
constexpr unsigned kStepBytes = kStep<D>* D * 2;

// Starts copying `count` rows from `first` on; rows from `length` on, and what is beyond the
// depth, become zero.
template <int D>
__device__ __forceinline__ void copy_rows(unsigned tile, const HeadRows<const Bf16>& from,
                                          int first, int count, int length) {
  constexpr int kChunks = D / 8;
  for (int i = threadIdx.x; i < count * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool inside = first + row < length && 8 * chunk < from.depth;
    const std::int64_t at = inside ? (first + row) * from.stride + 8 * chunk : 0;
    copy_async(place<D>(tile, row, chunk), from.start + at, inside);
  }
}

// Steps have two places in turn, each of two tiles: keys and values, or queries and rows of dout.
template <int D>
__device__ __forceinline__ unsigned step_tile(unsigned tiles, int step) {
  return tiles + step % 2 * (2 * kStepBytes<D>);
}
template <int D>
__device__ __forceinline__ void copy_step(unsigned tile, const HeadRows<const Bf16>& one,
                                          const HeadRows<const Bf16>& other, int first,
                                          int length) {
  copy_rows<D>(tile, one, first, kStep<D>, length);
  copy_rows<D>(tile + kStepBytes<D>, other, first, kStep<D>, length);
}

// sums (16, 8*N) += 16 rows of `left` from `row` on (16, D) times rows of `right` (8*N, D).
template <int D, int N>
__device__ __forceinline__ void multiply_rows(float (&sums)[N][4], unsigned left, int row,
                                              unsigned right) {
  const int lane = threadIdx.x % 32;
  GPUNODE_UNROLL
  for (int k = 0; k < D / 16; ++k) {
    unsigned a[4];
    load_matrices(a, place<D>(left, row + lane % 16, 2 * k + lane / 16));
    GPUNODE_UNROLL
    for (int n = 0; n < N / 2; ++n) {
      unsigned b[4];
      load_matrices(b, place<D>(right, 16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      multiply_add(sums[2 * n], a, b[0], b[1]);
      multiply_add(sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// sums (16, D) += weights (16, 8*N), rounded to bf16, times rows of `right` (8*N, D).
template <int D, int N>
__device__ __forceinline__ void multiply_columns(float (&sums)[D / 8][4],
                                                 const float (&weights)[N][4], unsigned right) {
  const int lane = threadIdx.x % 32;
  GPUNODE_UNROLL
  for (int k = 0; k < N / 2; ++k) {
    unsigned a[4];
    GPUNODE_UNROLL
    for (int i = 0; i < 4; ++i)
      a[i] =
          pack_bf16(weights[2 * k + i / 2][2 * (i % 2)], weights[2 * k + i / 2][2 * (i % 2) + 1]);
    GPUNODE_UNROLL
    for (int n = 0; n < D / 16; ++n) {
      unsigned b[4];
      load_transposed(b, place<D>(right, 16 * k + lane % 16, 2 * n + lane / 16));
      multiply_add(sums[2 * n], a, b[0], b[1]);
      multiply_add(sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

template <int N>
__device__ __forceinline__ void clear(float (&values)[N][4]) {
  GPUNODE_UNROLL
  for (int n = 0; n < N; ++n) GPUNODE_UNROLL
  for (int i = 0; i < 4; ++i) values[n][i] = 0;
}

// Writes this warp's 16 rows from `row` on, times `scale[half]`; zero from `length` on.
template <int N>
__device__ __forceinline__ void store_rows(const HeadRows<Bf16>& to, int row, int positions,
                                           int length, const float (&values)[N][4],
                                           const float (&scale)[2]) {
  const int lane = threadIdx.x % 32;
  GPUNODE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int mine = row + lane / 4 + 8 * half;
    if (mine >= positions) continue;
    GPUNODE_UNROLL
    for (int n = 0; n < N; ++n) {
      const int column = 8 * n + 2 * (lane % 4);
      if (column >= to.depth) continue;
      const unsigned pair =
          pack_bf16(values[n][2 * half] * scale[half], values[n][2 * half + 1] * scale[half]);
      *reinterpret_cast<unsigned*>(to.start + mine * to.stride + column) = mine < length ? pair : 0;
    }
  }
}

}  // namespace gpunode::cuda::flash
