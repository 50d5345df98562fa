// Floats to int8 with a scale for each 256, and back, with the CPU's bytes, those of NaN and
// infinities included. 64 threads pack one wire block, four values each: the largest magnitude by a
// tree in shared memory (the largest does not depend on the order), then the quotients. Bound by
// memory: about 5 bytes an element, up to 17 where what is lost is carried on.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kWireBlock = 256;                // values under one scale
constexpr int kWireBytes = kWireBlock + 4;     // of a whole block
constexpr int kBlockThreads = kWireBlock / 4;  // threads a wire block
constexpr int kBlocksAtOnce = kElementThreads / kBlockThreads;
constexpr unsigned kQuietNan = 0x7fc00000u;
constexpr unsigned kNoNumber = 0xffc00000u;  // what the CPU makes of zero times infinity

__device__ void write_word(unsigned char* out, unsigned word, int bytes) {
  if (bytes == 4 && allows(4, out)) {
    *reinterpret_cast<unsigned*>(out) = word;
    return;
  }
  for (int i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>(word >> 8 * i);
}

__device__ unsigned read_word(const unsigned char* in, int bytes) {
  if (bytes == 4 && allows(4, in)) return *reinterpret_cast<const unsigned*>(in);
  unsigned word = 0;
  for (int i = 0; i < bytes; ++i) word |= unsigned{in[i]} << 8 * i;
  return word;
}

// Byte `lane` of a word as a number of -128 to 127, times the scale.
__device__ float unpacked(unsigned word, int lane, float scale) {
  const int number = static_cast<int>(word << (24 - 8 * lane)) >> 24;
  const unsigned bits = __float_as_uint(scale), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return __uint_as_float(bits | 0x00400000u);
  if (magnitude == 0x7f800000u && number == 0) return __uint_as_float(kNoNumber);
  return static_cast<float>(number) * scale;
}

// The largest magnitude among the 64 threads of a wire block, infinite if anything is not finite.
__device__ float largest_of(const float (&value)[4], float* parts) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kBlockThreads;
  float largest = 0;
  for (float one : value) {
    const float magnitude = __uint_as_float(__float_as_uint(one) & 0x7fffffffu);
    largest = magnitude <= largest ? largest : magnitude < INFINITY ? magnitude : INFINITY;
  }
  parts[thread] = largest;
  __syncthreads();
  for (int half = kBlockThreads / 2; half > 0; half /= 2) {
    if (lane < half && parts[thread + half] > parts[thread]) parts[thread] = parts[thread + half];
    __syncthreads();
  }
  return parts[thread - lane];
}

__device__ float scale_of(float largest) {
  if (!(largest < INFINITY)) return __uint_as_float(kQuietNan);
  return largest < 0x1p-100f ? 0.0f : largest / 127.0f;
}

__device__ unsigned quotients(const float (&value)[4], float scale) {
  if (!(scale > 0.0f)) return 0;  // zero or NaN
  const float inverse = 1.0f / scale;
  unsigned word = 0;
  for (int lane = 0; lane < 4; ++lane)
    word |= (static_cast<unsigned>(__float2int_rn(value[lane] * inverse)) & 0xffu) << 8 * lane;
  return word;
}

__global__ void pack_int8_blocks(PackInt8Launch pass) {
  __shared__ float parts[kElementThreads];
  const int lane = static_cast<int>(threadIdx.x) % kBlockThreads;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kBlocksAtOnce +
                             static_cast<int>(threadIdx.x) / kBlockThreads;
  const std::int64_t first = block * kWireBlock + 4 * lane, rest = pass.count - first;
  const int count = rest < 0 ? 0 : rest < 4 ? static_cast<int>(rest) : 4;
  float value[4] = {};
  if (count == 4 && allows(16, pass.in) && !pass.carried) {
    const Lanes<4> x = load<4>(pass.in + first);
    for (int i = 0; i < 4; ++i) value[i] = x.at[i];
  } else {
    for (int i = 0; i < count; ++i)
      value[i] = pass.carried ? pass.in[first + i] + pass.carried[first + i] : pass.in[first + i];
  }
  const float scale = scale_of(largest_of(value, parts));
  if (count == 0) return;
  const unsigned word = quotients(value, scale);
  unsigned char* out = pass.out + block * kWireBytes;
  if (lane == 0) write_word(out, __float_as_uint(scale), 4);
  write_word(out + 4 + 4 * lane, word, count);
  for (int i = 0; i < count; ++i) {
    const float there = unpacked(word, i, scale);
    if (pass.lost && scale == scale) pass.lost[first + i] += value[i] - there;
    if (pass.arrives) pass.arrives[first + i] = there;
  }
}

__global__ void unpack_int8_elements(UnpackInt8Launch pass) {
  const std::int64_t words = (pass.count + 3) / 4;
  const bool aligned = allows(16, pass.out);
  for_elements(words, false, [&]<int kCount>(std::int64_t word) {
    const std::int64_t first = 4 * word, block = first / kWireBlock, rest = pass.count - first;
    const unsigned char* in = pass.in + block * kWireBytes;
    const float scale = __uint_as_float(read_word(in, 4));
    const int count = rest < 4 ? static_cast<int>(rest) : 4;
    const unsigned bytes = read_word(in + 4 + first % kWireBlock, count);
    Lanes<4> x;
    for (int i = 0; i < 4; ++i) x.at[i] = unpacked(bytes, i, scale);
    if (count == 4 && aligned)
      store(pass.out + first, x);
    else
      for (int i = 0; i < count; ++i) pass.out[first + i] = x.at[i];
  });
}

}  // namespace

cudaError_t launch(const PackInt8Launch& work, cudaStream_t stream) {
  const std::int64_t blocks = 1 + (work.count - 1) / (kBlocksAtOnce * kWireBlock);
  GPUNODE_LAUNCH(pack_int8_blocks, blocks, kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const UnpackInt8Launch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(unpack_int8_elements, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
