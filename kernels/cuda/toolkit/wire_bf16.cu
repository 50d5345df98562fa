// Floats to bf16 and back, with the CPU's bytes. Bound by memory: 6 bytes an element, four elements
// a thread where both arrays are aligned for it, single bytes where the wire's bytes are not.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

// The upper half, rounded to the nearest, ties to even; a NaN keeps its upper bits and turns quiet.
__device__ unsigned bf16_bits(float value) {
  const unsigned bits = __float_as_uint(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (nan ? bits | 0x00400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

__global__ void pack_bf16_elements(PackBf16Launch pass) {
  const bool by_four = allows(16, pass.in) && allows(8, pass.out);
  for_elements(pass.count, by_four, [&]<int kCount>(std::int64_t i) {
    const Lanes<kCount> x = load<kCount>(pass.in + i);
    unsigned char* out = pass.out + 2 * i;
    if constexpr (kCount == 4) {
      const unsigned low = bf16_bits(x.at[0]) | bf16_bits(x.at[1]) << 16;
      const unsigned high = bf16_bits(x.at[2]) | bf16_bits(x.at[3]) << 16;
      *reinterpret_cast<uint2*>(out) = make_uint2(low, high);
    } else {
      const unsigned bits = bf16_bits(x.at[0]);
      out[0] = static_cast<unsigned char>(bits);
      out[1] = static_cast<unsigned char>(bits >> 8);
    }
  });
}

__global__ void unpack_bf16_elements(UnpackBf16Launch pass) {
  const bool by_four = allows(8, pass.in) && allows(16, pass.out);
  for_elements(pass.count, by_four, [&]<int kCount>(std::int64_t i) {
    const unsigned char* in = pass.in + 2 * i;
    if constexpr (kCount == 4) {
      const uint2 two = *reinterpret_cast<const uint2*>(in);
      store(pass.out + i,
            Lanes<4>{__uint_as_float(two.x << 16), __uint_as_float(two.x & 0xffff0000u),
                     __uint_as_float(two.y << 16), __uint_as_float(two.y & 0xffff0000u)});
    } else {
      pass.out[i] = __uint_as_float(unsigned{in[0]} << 16 | unsigned{in[1]} << 24);
    }
  });
}

}  // namespace

cudaError_t launch(const PackBf16Launch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(pack_bf16_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const UnpackBf16Launch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(unpack_bf16_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
