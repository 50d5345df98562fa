#include "kernels/cpu/detail/bf16_blocks.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")

namespace gpunode::cpu {
namespace {

constexpr std::int64_t kGroup = 16;  // columns that one vector holds
constexpr std::int64_t kBlockBytes = kBlockRows * kPanelColumns * 2;
constexpr std::int64_t kPairBytes = kPanelColumns * 2 * 2;  // a pair of rows of a panel

// Floats of a row that are asked for before they are read: a block's rows lie far apart, and the
// processor does not follow so many streams by itself.
constexpr std::int64_t kAhead = 128;

inline void ask_for(const float* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at + kAhead), _MM_HINT_T0);
}

// The first `count` lanes, of none to all.
inline __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(count, 0, kGroup)) - 1);
}

// Thirty-two values in bf16: those of `low`, then those of `high`.
inline __m512i round_both(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// Lane j of row i becomes lane i of row j.
inline void turn(__m512i (&row)[kGroup]) {
  __m512i half[kGroup];
#pragma GCC unroll 8
  for (int i = 0; i < kGroup; i += 2) {
    half[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kGroup; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      row[i + 2 * j] = _mm512_unpacklo_epi64(half[i + j], half[i + j + 2]);
      row[i + 2 * j + 1] = _mm512_unpackhi_epi64(half[i + j], half[i + j + 2]);
    }
    // row[4 q + c]: of the columns c, c + 4, c + 8, c + 12 the rows 4 q to 4 q + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i a = _mm512_shuffle_i32x4(row[c], row[4 + c], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(row[8 + c], row[12 + c], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(row[c], row[4 + c], 0xdd);
    const __m512i e = _mm512_shuffle_i32x4(row[8 + c], row[12 + c], 0xdd);
    half[c] = _mm512_shuffle_i32x4(a, b, 0x88);
    half[8 + c] = _mm512_shuffle_i32x4(a, b, 0xdd);
    half[4 + c] = _mm512_shuffle_i32x4(d, e, 0x88);
    half[12 + c] = _mm512_shuffle_i32x4(d, e, 0xdd);
  }
  std::copy(half, half + kGroup, row);
}

// Past the caches where what is written is kept for later: then it need not be read to be written.
template <bool kKept>
inline void store_pairs(std::byte* at, __m512i pairs) {
  if constexpr (kKept)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(at), pairs);
  else
    _mm512_storeu_si512(at, pairs);
}

// One block from b (K, N): rows from k on, columns from n on.
template <bool kKept>
inline void fill_block(const float* b, std::int64_t K, std::int64_t N, std::int64_t k,
                       std::int64_t n, std::byte* out) {
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t row = k; row < k + kBlockRows; row += 2, out += kPairBytes)
    for (std::int64_t column = 0; column < kPanelColumns; column += kGroup) {
      const __mmask16 lanes = first_lanes(N - n - column);
      const float* at = b + row * N + n + column;
      ask_for(at);
      ask_for(at + N);
      const __m512 even = _mm512_maskz_loadu_ps(row < K ? lanes : 0, at);
      const __m512 odd = _mm512_maskz_loadu_ps(row + 1 < K ? lanes : 0, at + N);
      store_pairs<kKept>(out + 4 * column,
                         _mm512_permutexvar_epi16(interleave, round_both(even, odd)));
    }
}

// The same from b (N, K).
template <bool kKept>
inline void fill_block_turned(const float* b, std::int64_t K, std::int64_t N, std::int64_t k,
                              std::int64_t n, std::byte* out) {
  const __mmask16 low = first_lanes(K - k), high = first_lanes(K - k - kGroup);
  for (std::int64_t column = 0; column < kPanelColumns; column += kGroup) {
    __m512i pairs[kGroup];  // a column each
#pragma GCC unroll 16
    for (std::int64_t lane = 0; lane < kGroup; ++lane) {
      const bool there = n + column + lane < N;
      const float* at = b + (n + column + lane) * K + k;
      ask_for(at);
      ask_for(at + kGroup);
      pairs[lane] = round_both(_mm512_maskz_loadu_ps(there ? low : 0, at),
                               _mm512_maskz_loadu_ps(there ? high : 0, at + kGroup));
    }
    turn(pairs);
#pragma GCC unroll 16
    for (std::int64_t pair = 0; pair < kGroup; ++pair)
      store_pairs<kKept>(out + pair * kPairBytes + 4 * column, pairs[pair]);
  }
}

template <bool kKept>
void fill(const float* b, std::int64_t K, std::int64_t N, bool transposed, std::int64_t part,
          std::int64_t parts, std::byte* out) {
  const std::int64_t blocks = (K + kBlockRows - 1) / kBlockRows;
  const std::int64_t panels = (N + kPanelColumns - 1) / kPanelColumns;
  const auto place = [&](std::int64_t panel, std::int64_t block) {
    return out + (panel * blocks + block) * kBlockBytes;
  };
  // A part is of rows of b as they lie, in their order.
  if (transposed)
    for (std::int64_t panel = panels * part / parts; panel < panels * (part + 1) / parts; ++panel)
      for (std::int64_t block = 0; block < blocks; ++block)
        fill_block_turned<kKept>(b, K, N, block * kBlockRows, panel * kPanelColumns,
                                 place(panel, block));
  else
    for (std::int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block)
      for (std::int64_t panel = 0; panel < panels; ++panel)
        fill_block<kKept>(b, K, N, block * kBlockRows, panel * kPanelColumns, place(panel, block));
  if constexpr (kKept) _mm_sfence();  // such stores keep no order with others
}

}  // namespace

void fill_panels(const float* b, std::int64_t K, std::int64_t N, bool transposed, std::byte* out) {
  fill<false>(b, K, N, transposed, 0, 1, out);
}

void fill_kept_panels(const float* b, std::int64_t K, std::int64_t N, bool transposed,
                      std::int64_t part, std::int64_t parts, std::byte* out) {
  fill<true>(b, K, N, transposed, part, parts, out);
}

}  // namespace gpunode::cpu
#pragma GCC pop_options
