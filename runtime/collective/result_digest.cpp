#include "runtime/collective/result_digest.hpp"

#include "runtime/base/bytes.hpp"

namespace gpunode::collective {

namespace {
void append(Bytes& bytes, std::uint64_t value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof value);
}
}  // namespace

Digest result_digest_of(const ChunkLayout& layout, std::span<const float> result,
                        const DataFingerprint& data_fingerprint) {
  Bytes digests;
  digests.reserve(std::size_t{layout.chunk_count()} * 16 + 24);
  for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const Digest digest =
        digest_of(bytes_of(result.subspan(layout.first(chunk), layout.size(chunk))));
    append(digests, digest.high);
    append(digests, digest.low);
  }
  append(digests, data_fingerprint.hash_sum.high);
  append(digests, data_fingerprint.hash_sum.low);
  append(digests, data_fingerprint.sample_count);
  return digest_of(digests);
}

}  // namespace gpunode::collective
