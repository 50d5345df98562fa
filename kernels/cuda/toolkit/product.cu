// Matrix products where cuBLASLt is not on the machine. In float32 as tiled_product.cuh has it. In bf16
// on tensor cores: a block has 64 by 64 entries of the result, each of its four warps 32 by 32, and
// takes 64 of what is summed over at a time, which is copied while the 64 before are multiplied. Each
// entry is summed in order, by one lane. Factors whose rows do not start at 16 bytes are copied value by
// value; the arithmetic is the same.
#include "kernels/cuda/toolkit/packed_weight.cuh"
#include "kernels/cuda/toolkit/tiled_product.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

namespace gpunode::cuda {
namespace {

// What becomes of a sum.
template <class Element>
struct Finish {
  const ProductLaunch<Element>& work;
  __device__ void operator()(int row, int column, float sum) const {
    float& c = work.c[std::int64_t{row} * work.columns + column];
    if (work.bias) sum += work.bias[column];
    c = work.accumulate ? c + sum : sum;
  }
};

// float32

template <bool kTransposeA>
__device__ auto left_side(const ProductLaunch<float>& work) {
  if constexpr (kTransposeA)
    return tiled::Columns{work.a, work.rows};
  else
    return tiled::Matrix{work.a, work.rows, work.depth};
}
template <bool kTransposeB>
__device__ auto right_side(const ProductLaunch<float>& work) {
  if constexpr (kTransposeB)
    return tiled::Matrix{work.b, work.columns, work.depth};
  else
    return tiled::Columns{work.b, work.columns};
}

template <bool kTransposeA, bool kTransposeB>
__global__ void multiply_floats(ProductLaunch<float> work) {
  tiled::multiply(left_side<kTransposeA>(work), right_side<kTransposeB>(work),
                  static_cast<int>(blockIdx.x), 0, work.depth, Finish<float>{work});
}

// A side of packed weights (lines, depth), each of which is unpacked where it is read.
struct PackedMatrix {
  static constexpr bool kDeepFirst = true;
  using Line = const std::byte*;
  using Deep = int;
  PackedRows rows;
  int count, depth;
  __device__ int lines() const { return count; }
  __device__ Line line(int index) const { return rows.data + index * rows.row; }
  __device__ Deep deep(int index) const { return index; }
  __device__ float at(Line line, Deep deep) const {
    return weight_at(rows.format, line, deep, depth);
  }
};

__global__ void multiply_packed(ProductLaunch<float> work) {
  tiled::multiply(tiled::Matrix{work.a, work.rows, work.depth},
                  PackedMatrix{work.packed_b, work.columns, work.depth},
                  static_cast<int>(blockIdx.x), 0, work.depth, Finish<float>{work});
}

// bf16

constexpr int kThreads = 128;
constexpr int kTile = 64;  // rows, columns, and what is summed over at a time
constexpr unsigned kTileBytes = kTile * kTile * sizeof(Bf16);
constexpr int kSharedBytes = 4 * kTileBytes;  // of both factors, in two places in turn
constexpr int kOwn = 32;                      // rows and columns of a warp

struct alignas(16) Chunk {
  Bf16 values[8];
};

// Starts copying rows from `first` on and columns from `begin` on of a matrix (rows, width); what is
// beyond becomes zero.
__device__ __forceinline__ void copy_tile(unsigned tile, const Bf16* from, int rows, int width,
                                          int first, int begin) {
  const bool by_eight = width % 8 == 0 && allows(16, from);
  for (int i = threadIdx.x; i < kTile * 8; i += kThreads) {
    const int row = first + i / 8, column = begin + i % 8 * 8;
    const unsigned to = place<kTile>(tile, i / 8, i % 8);
    const std::int64_t at = std::int64_t{row} * width + column;
    if (by_eight) {
      const bool inside = row < rows && column < width;
      copy_async(to, from + (inside ? at : 0), inside);
      continue;
    }
    Chunk chunk;
    GPUNODE_UNROLL
    for (int n = 0; n < 8; ++n)
      chunk.values[n] = row < rows && column + n < width ? from[at + n] : Bf16{0};
    *shared_pointer<Chunk>(to) = chunk;
  }
}

// Starts copying the tiles of both factors from `deep` on of what is summed over.
template <bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void copy_step(unsigned tiles, const ProductLaunch<Bf16>& work, int top,
                                          int left, int deep) {
  if constexpr (kTransposeA)
    copy_tile(tiles, work.a, work.depth, work.rows, deep, top);
  else
    copy_tile(tiles, work.a, work.rows, work.depth, top, deep);
  if constexpr (kTransposeB)
    copy_tile(tiles + kTileBytes, work.b, work.columns, work.depth, left, deep);
  else
    copy_tile(tiles + kTileBytes, work.b, work.depth, work.columns, deep, left);
}

// sums += this warp's 32 rows from `row` on times its 32 columns from `column` on, 64 deep.
template <bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void multiply_tiles(float (&sums)[2][4][4], unsigned tiles, int row,
                                               int column) {
  const int lane = threadIdx.x % 32;
  GPUNODE_UNROLL
  for (int k = 0; k < kTile / 16; ++k) {
    unsigned a[2][4], b[2][4];  // of 16 rows each; of 16 columns each
    GPUNODE_UNROLL
    for (int n = 0; n < 2; ++n) {
      const int top = row + 16 * n, left = column + 16 * n;
      if constexpr (kTransposeA)
        load_transposed(
            a[n], place<kTile>(tiles, 16 * k + lane / 16 * 8 + lane % 8, top / 8 + lane / 8 % 2));
      else
        load_matrices(a[n], place<kTile>(tiles, top + lane % 16, 2 * k + lane / 16));
      if constexpr (kTransposeB)
        load_matrices(b[n], place<kTile>(tiles + kTileBytes, left + lane % 8 + lane / 16 * 8,
                                         2 * k + lane / 8 % 2));
      else
        load_transposed(b[n],
                        place<kTile>(tiles + kTileBytes, 16 * k + lane % 16, left / 8 + lane / 16));
    }
    GPUNODE_UNROLL
    for (int n = 0; n < 8; ++n)
      multiply_add(sums[n / 4][n % 4], a[n / 4], b[n % 4 / 2][n % 2 * 2],
                   b[n % 4 / 2][n % 2 * 2 + 1]);
  }
}

template <bool kTransposeA, bool kTransposeB>
__global__ void __launch_bounds__(kThreads) multiply_rounded(ProductLaunch<Bf16> work) {
  const int across = (work.columns + kTile - 1) / kTile;
  const int top = static_cast<int>(blockIdx.x) / across * kTile;
  const int left = static_cast<int>(blockIdx.x) % across * kTile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * kOwn, column = warp % 2 * kOwn;
  const int steps = (work.depth + kTile - 1) / kTile;
  const unsigned tiles = shared_address();
  float sums[2][4][4] = {};
  copy_step<kTransposeA, kTransposeB>(tiles, work, top, left, 0);
  commit_copies();
  for (int step = 0; step < steps; ++step) {
    await_copies<0>();
    __syncthreads();  // all have the tiles of this step, and none reads those of the last
    if (step + 1 < steps)
      copy_step<kTransposeA, kTransposeB>(tiles + (step + 1) % 2 * (2 * kTileBytes), work, top,
                                          left, (step + 1) * kTile);
    commit_copies();
    multiply_tiles<kTransposeA, kTransposeB>(sums, tiles + step % 2 * (2 * kTileBytes), row,
                                             column);
  }
  const Finish<Bf16> finish{work};
  GPUNODE_UNROLL
  for (int n = 0; n < 32; ++n) {
    const int i = n % 4, to = top + row + 16 * (n / 16) + lane / 4 + i / 2 * 8;
    const int at = left + column + 8 * (n / 4 % 4) + 2 * (lane % 4) + i % 2;
    if (to < work.rows && at < work.columns) finish(to, at, sums[n / 16][n / 4 % 4][i]);
  }
}

// Calls start.operator()<transpose_a, transpose_b>().
template <class Element, class Start>
void by_orders(const ProductLaunch<Element>& work, Start start) {
  if (work.transpose_a)
    work.transpose_b ? start.template operator()<true, true>()
                     : start.template operator()<true, false>();
  else
    work.transpose_b ? start.template operator()<false, true>()
                     : start.template operator()<false, false>();
}

}  // namespace

cudaError_t launch(const ProductLaunch<float>& work, cudaStream_t stream) {
  if (work.packed_b.data) {
    GPUNODE_LAUNCH(multiply_packed, tiled::tiles(work.rows, work.columns), tiled::kThreads, stream,
                   work);
    return cudaGetLastError();
  }
  by_orders(work, [&]<bool kTransposeA, bool kTransposeB>() {
    GPUNODE_LAUNCH((multiply_floats<kTransposeA, kTransposeB>),
                   tiled::tiles(work.rows, work.columns), tiled::kThreads, stream, work);
  });
  return cudaGetLastError();
}

cudaError_t launch(const ProductLaunch<std::uint16_t>& work, cudaStream_t stream) {
  by_orders(work, [&]<bool kTransposeA, bool kTransposeB>() {
    GPUNODE_LAUNCH_SHARED((multiply_rounded<kTransposeA, kTransposeB>),
                          tiled::tiles(work.rows, work.columns), kThreads, kSharedBytes, stream,
                          work);
  });
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
