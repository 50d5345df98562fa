#include "runtime/collective/result_digest.hpp"

#include "runtime/base/block_digest.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::collective {

Digest result_digest_of(const ChunkLayout& layout, std::span<const float> result,
                        const DataFingerprint& data_fingerprint) {
  const auto digest_of_chunk = [&](std::uint32_t chunk) {
    return block_digest_of(bytes_of(result.subspan(layout.first(chunk), layout.size(chunk))));
  };
  return result_digest_of(layout, digest_of_chunk, data_fingerprint);
}

Digest result_digest_of(const ChunkLayout& layout,
                        const std::function<Digest(std::uint32_t chunk)>& digest_of_chunk,
                        const DataFingerprint& data_fingerprint) {
  Bytes digests;
  digests.reserve(std::size_t{layout.chunk_count()} * 16 + 24);
  for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const Digest digest = digest_of_chunk(chunk);
    append_number(digests, digest.high);
    append_number(digests, digest.low);
  }
  append_number(digests, data_fingerprint.hash_sum.high);
  append_number(digests, data_fingerprint.hash_sum.low);
  append_number(digests, data_fingerprint.sample_count);
  return digest_of(digests);
}

}  // namespace gpunode::collective
