// XXH3-128 (seed 0, the library's own secret) of every block of a long range of bytes, with the
// bits of runtime/base/digest. Eight threads a block: each holds one of the eight accumulators and
// walks 64-byte stripes, so 64 KiB blocks of a gigabyte give 131,072 threads. Bound by memory where
// the range is aligned to 16 bytes; otherwise, and in the tail, bytes are put together one by one.
// Blocks of up to 240 bytes have forms of their own, done by one thread.
// Source: the XXH3 algorithm as specified by its author, Y. Collet, for xxHash 0.8.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

using Word = unsigned long long;

constexpr Word kPrime32a = 0x9e3779b1u, kPrime32b = 0x85ebca77u, kPrime32c = 0xc2b2ae3du;
constexpr Word kPrime64a = 0x9e3779b185ebca87u, kPrime64b = 0xc2b2ae3d27d4eb4fu;
constexpr Word kPrime64c = 0x165667b19e3779f9u, kPrime64d = 0x85ebca77c2b2ae63u;
constexpr Word kPrime64e = 0x27d4eb2f165667c5u;

constexpr int kStripe = 64;  // bytes that one step takes, eight a thread
constexpr int kRound = 16;   // stripes between two scrambles
constexpr int kGroup = 8;    // threads a block of bytes
constexpr int kDigestThreads = 128;
constexpr int kSecretBytes = 192, kSecretWords = kSecretBytes / 8;

// The secret as little-endian words; those between them are made of two neighbours.
__device__ constexpr Word kSecret[kSecretWords] = {
    0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u,
    0x78e5c0cc4ee679cbu, 0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u,
    0xcb00c391bb52283cu, 0xa32e531b8b65d088u, 0x4ef90da297486471u, 0xd8acdea946ef1938u,
    0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au, 0x647378d9c97e9fc8u,
    0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
    0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};

struct Hash {
  Word low, high;
};

__device__ Word read_bytes(const unsigned char* at, int bytes) {
  Word word = 0;
  for (int i = 0; i < bytes; ++i) word |= Word{at[i]} << 8 * i;
  return word;
}
__device__ Word read64(const unsigned char* at) {
  return read_bytes(at, 8);
}
// Eight bytes of the secret, from any place on.
__device__ Word secret_at(int place) {
  const int shift = place % 8 * 8;
  const Word word = kSecret[place / 8];
  return shift == 0 ? word : word >> shift | kSecret[place / 8 + 1] << (64 - shift);
}

__device__ Word swap64(Word x) {
  Word swapped = 0;
  for (int i = 0; i < 8; ++i) swapped = swapped << 8 | (x >> 8 * i & 0xff);
  return swapped;
}
__device__ Hash product(Word a, Word b) {
  return {a * b, __umul64hi(a, b)};
}
__device__ Word folded(Word a, Word b) {
  return a * b ^ __umul64hi(a, b);
}
__device__ Word avalanche(Word x) {
  x = (x ^ x >> 37) * 0x165667919e3779f9u;
  return x ^ x >> 32;
}
__device__ Word long_avalanche(Word x) {  // that of the 64-bit hash before XXH3
  x = (x ^ x >> 33) * kPrime64b;
  x = (x ^ x >> 29) * kPrime64c;
  return x ^ x >> 32;
}

__device__ Hash hash_to_8(const unsigned char* in, int size) {
  if (size == 0)
    return {long_avalanche(secret_at(64) ^ secret_at(72)),
            long_avalanche(secret_at(80) ^ secret_at(88))};
  if (size < 4) {
    const unsigned low = unsigned{in[0]} << 16 | unsigned{in[size / 2]} << 24 |
                         unsigned{in[size - 1]} | static_cast<unsigned>(size) << 8;
    const unsigned turned = static_cast<unsigned>(swap64(low) >> 32);
    const unsigned high = turned << 13 | turned >> 19;
    const Word first = secret_at(0), second = secret_at(8);
    return {long_avalanche(low ^ ((first ^ first >> 32) & 0xffffffffu)),
            long_avalanche(high ^ ((second ^ second >> 32) & 0xffffffffu))};
  }
  const Word keyed =
      (read_bytes(in, 4) + (read_bytes(in + size - 4, 4) << 32)) ^ (secret_at(16) ^ secret_at(24));
  Hash mixed = product(keyed, kPrime64a + (static_cast<Word>(size) << 2));
  mixed.high += mixed.low << 1;
  mixed.low ^= mixed.high >> 3;
  mixed.low = (mixed.low ^ mixed.low >> 35) * 0x9fb21c651e98df25u;
  return {mixed.low ^ mixed.low >> 28, avalanche(mixed.high)};
}

__device__ Hash hash_to_16(const unsigned char* in, int size) {
  const Word first = read64(in);
  Word last = read64(in + size - 8);
  Hash mixed = product(first ^ last ^ secret_at(32) ^ secret_at(40), kPrime64a);
  mixed.low += static_cast<Word>(size - 1) << 54;
  last ^= secret_at(48) ^ secret_at(56);
  mixed.high += last + (last & 0xffffffffu) * (kPrime32b - 1);
  mixed.low ^= swap64(mixed.high);
  Hash out = product(mixed.low, kPrime64b);
  out.high += mixed.high * kPrime64b;
  return {avalanche(out.low), avalanche(out.high)};
}

__device__ void mix_32(Hash& sum, const unsigned char* a, const unsigned char* b, int secret) {
  sum.low += folded(read64(a) ^ secret_at(secret), read64(a + 8) ^ secret_at(secret + 8));
  sum.low ^= read64(b) + read64(b + 8);
  sum.high += folded(read64(b) ^ secret_at(secret + 16), read64(b + 8) ^ secret_at(secret + 24));
  sum.high ^= read64(a) + read64(a + 8);
}

__device__ Hash hash_to_240(const unsigned char* in, int size) {
  Hash sum{static_cast<Word>(size) * kPrime64a, 0};
  if (size <= 128) {  // pairs of 16 bytes from both ends, the inner ones first
    for (int pair = (size - 1) / 32; pair >= 0; --pair)
      mix_32(sum, in + 16 * pair, in + size - 16 * (pair + 1), 32 * pair);
  } else {
    for (int pair = 0; pair < size / 32; ++pair) {
      if (pair == 4) sum = {avalanche(sum.low), avalanche(sum.high)};
      const int secret = pair < 4 ? 32 * pair : 3 + 32 * (pair - 4);
      mix_32(sum, in + 32 * pair, in + 32 * pair + 16, secret);
    }
    if (size / 32 == 4) sum = {avalanche(sum.low), avalanche(sum.high)};
    mix_32(sum, in + size - 16, in + size - 32, 136 - 17 - 16);
  }
  const Word high =
      sum.low * kPrime64a + sum.high * kPrime64d + static_cast<Word>(size) * kPrime64b;
  return {avalanche(sum.low + sum.high), 0 - avalanche(high)};
}

__device__ Hash hash_short(const unsigned char* in, int size) {
  return size <= 8    ? hash_to_8(in, size)
         : size <= 16 ? hash_to_16(in, size)
                      : hash_to_240(in, size);
}

struct Pair {  // what a thread needs of a stripe: its own eight bytes and its neighbour's
  Word own, other;
};
struct alignas(16) TwoWords {
  Word first, second;
};

__device__ Pair pair_at(const unsigned char* stripe, int lane, bool aligned) {
  const unsigned char* at = stripe + lane / 2 * 16;
  const TwoWords both =
      aligned ? *reinterpret_cast<const TwoWords*>(at) : TwoWords{read64(at), read64(at + 8)};
  return lane % 2 == 0 ? Pair{both.first, both.second} : Pair{both.second, both.first};
}
__device__ Word accumulated(Word sum, const Pair& pair, Word secret) {
  const Word keyed = pair.own ^ secret;
  return sum + pair.other + (keyed & 0xffffffffu) * (keyed >> 32);
}

// One accumulator over all stripes of a block of more than 240 bytes.
__device__ Word accumulator(const unsigned char* in, std::int64_t size, int lane,
                            const Word* secret) {
  constexpr Word kStart[kGroup] = {kPrime32c, kPrime64a, kPrime64b, kPrime64c,
                                   kPrime64d, kPrime32b, kPrime64e, kPrime32a};
  const bool aligned = allows(16, in);
  Word sum = kStart[lane];
  std::int64_t stripe = 0;
  const std::int64_t stripes = (size - 1) / kStripe;
  for (; stripe + kRound <= stripes; stripe += kRound) {
    Pair ahead[kRound];
    for (int i = 0; i < kRound; ++i) ahead[i] = pair_at(in + (stripe + i) * kStripe, lane, aligned);
    for (int i = 0; i < kRound; ++i) sum = accumulated(sum, ahead[i], secret[i + lane]);
    sum = (sum ^ sum >> 47 ^ secret[kSecretWords - kGroup + lane]) * kPrime32a;
  }
  for (int i = 0; stripe < stripes; ++i, ++stripe)
    sum = accumulated(sum, pair_at(in + stripe * kStripe, lane, aligned), secret[i + lane]);
  return accumulated(sum, pair_at(in + size - kStripe, lane, false),
                     secret_at(kSecretBytes - kStripe - 7 + 8 * lane));
}

__device__ Word merged(const Word* sums, int secret, Word start) {
  for (int i = 0; i < kGroup; i += 2)
    start +=
        folded(sums[i] ^ secret_at(secret + 8 * i), sums[i + 1] ^ secret_at(secret + 8 * i + 8));
  return avalanche(start);
}

__global__ void digest_blocks(BlockDigestLaunch work) {
  __shared__ Word sums[kDigestThreads];
  __shared__ Word secret[kSecretWords];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kGroup;
  if (thread < kSecretWords) secret[thread] = kSecret[thread];
  __syncthreads();
  const std::int64_t block =
      static_cast<std::int64_t>(blockIdx.x) * (kDigestThreads / kGroup) + thread / kGroup;
  const unsigned char* in = work.in + block * work.block_bytes;
  const std::int64_t rest = work.bytes - block * work.block_bytes;
  const std::int64_t size = rest < work.block_bytes ? rest : work.block_bytes;
  const bool mine = block < work.blocks;
  if (mine && size > 240) sums[thread] = accumulator(in, size, lane, secret);
  __syncthreads();
  if (!mine || lane >= 2) return;
  std::uint64_t* out = work.out + 2 * block;
  if (size <= 240) {
    if (lane != 0) return;
    const Hash hash = hash_short(in, static_cast<int>(size));
    out[0] = hash.high;
    out[1] = hash.low;
  } else if (lane == 0) {
    const Word start = ~(static_cast<Word>(size) * kPrime64b);
    out[0] = merged(sums + thread, kSecretBytes - kStripe - 11, start);
  } else {
    out[1] = merged(sums + thread - 1, 11, static_cast<Word>(size) * kPrime64a);
  }
}

}  // namespace

cudaError_t launch(const BlockDigestLaunch& work, cudaStream_t stream) {
  constexpr int kAtOnce = kDigestThreads / kGroup;
  GPUNODE_LAUNCH(digest_blocks, (work.blocks + kAtOnce - 1) / kAtOnce, kDigestThreads, stream,
                 work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
