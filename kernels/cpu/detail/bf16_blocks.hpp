// The right factor of a product in bf16 as oneDNN's kernels with AVX512-BF16 or AMX read it: panels
// of 64 columns, in each of them blocks of 32 rows, in a block pairs of rows of one column side by
// side (its layout BA16a64b2a); what the edges lack is zeros. The library's own conversion takes
// three times as long.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpunode::cpu {

inline constexpr std::int64_t kBlockRows = 32, kPanelColumns = 64;

// Rounds b, (K, N), or (N, K) if transposed, into `out`, whose contents are read soon. These two only
// on a processor with AVX512-BF16.
void fill_panels(const float* b, std::int64_t K, std::int64_t N, bool transposed, std::byte* out);
// The part-th of `parts` pieces of b, into what is kept: aligned to 64, and written past the caches.
void fill_kept_panels(const float* b, std::int64_t K, std::int64_t N, bool transposed,
                      std::int64_t part, std::int64_t parts, std::byte* out);

}  // namespace gpunode::cpu
