// What a kernel asks of a warp's tensor cores and of asynchronous copies, in inline PTX under nvcc
// and by the emulation of the tests elsewhere. Shared memory is addressed by its 32 bits, which are
// offsets in the block's dynamic part on the host. sm_80 and newer.
//
// Fragments of one product (16 x 16) * (16 x 8), with g = lane / 4 and t = lane % 4:
//   A  a[i] holds rows g + 8 * (i % 2), columns 2t and 2t + 1, from 8 on for i / 2 = 1
//   B  b0 holds rows 2t and 2t + 1 of column g, b1 those from 8 on
//   D  d[i] is row g + 8 * (i / 2), column 2t + i % 2
// Two neighbours in D, packed, are what A of the next product wants.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Before a loop over registers: only an unrolled one keeps them from memory.
#ifdef __CUDACC__
#define GPUNODE_UNROLL _Pragma("unroll")
#define GPUNODE_PRAGMA(text) _Pragma(#text)
#define GPUNODE_UNROLL_BY(count) GPUNODE_PRAGMA(unroll count)
#else
#define GPUNODE_UNROLL
#define GPUNODE_UNROLL_BY(count)
#endif

namespace gpunode::cuda {

#ifdef __CUDACC__

extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];

// The address of the block's dynamic shared memory.
__device__ __forceinline__ unsigned shared_address() {
  return static_cast<unsigned>(__cvta_generic_to_shared(dynamic_shared_bytes));
}
template <class T>
__device__ __forceinline__ T* shared_pointer(unsigned address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

// Four matrices of 8 x 8 bf16: lane 8 * m + r gives the address of row r of matrix m, and out[m] is
// columns 2t and 2t + 1 of row g of matrix m.
__device__ __forceinline__ void load_matrices(unsigned (&out)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row)
               : "memory");
}
// The same, but out[m] is rows 2t and 2t + 1 of column g.
__device__ __forceinline__ void load_transposed(unsigned (&out)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row)
               : "memory");
}
// d += a * b, bf16 with a float32 sum.
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two values to bf16, rounded to the nearest; `low` lies first in memory.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Starts a copy of 16 bytes to shared memory, of zeros if not `inside`; `from` has to be an address
// in the array nevertheless. Both are multiples of 16.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool inside) {
  const int read = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(read)
               : "memory");
}
// Makes one group of what this thread started since the last; then waits until no more than the
// `kLeft` newest groups are under way. Other threads see it after a barrier.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

#else

using emulation::await_copies;
using emulation::commit_copies;
using emulation::copy_async;
using emulation::load_matrices;
using emulation::load_transposed;
using emulation::multiply_add;
using emulation::pack_bf16;
using emulation::shared_address;
using emulation::shared_pointer;

#endif

using Bf16 = std::uint16_t;  // its bits

// Where the eight values of a chunk lie in a tile of rows of D bf16. Chunks are exchanged within 128
// bytes so that eight rows' chunks of one number lie in different banks.
template <int D>
__device__ __forceinline__ unsigned place(unsigned tile, int row, int chunk) {
  constexpr int kShift = D < 64 ? 1 : 0, kMask = D < 64 ? 3 : 7;
  return tile + row * (2 * D) + ((chunk ^ (row >> kShift & kMask)) << 4);
}

// 2^x for x <= 0, off by 2.4e-7 of it at most; 0 below -126. The fraction's power is a polynomial
// of degree 6 in [-1/2, 1/2] (Taylor's, whose first term left out is 1.1e-8 there).
__device__ __forceinline__ float power_of_two(float x) {
  const float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float rounded = x + kRound;
  const float part = x - (rounded - kRound);
  float power = 1.5403530e-4f;
  power = fmaf(power, part, 1.3333558e-3f);
  power = fmaf(power, part, 9.6181291e-3f);
  power = fmaf(power, part, 5.5504109e-2f);
  power = fmaf(power, part, 2.4022651e-1f);
  power = fmaf(power, part, 6.9314718e-1f);
  power = fmaf(power, part, 1.0f);
  const unsigned exponent = __float_as_uint(rounded) << 23;  // the integer's, all else goes
  const float result = __uint_as_float(__float_as_uint(power) + exponent);
  return x < -126.0f ? 0.0f : result;
}

}  // namespace gpunode::cuda
