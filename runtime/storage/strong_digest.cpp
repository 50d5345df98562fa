#include "runtime/storage/strong_digest.hpp"

#include "runtime/storage/checksum.hpp"

namespace gpunode::storage {

Digest strong_digest_of(ByteView bytes) {
  const Sha256 hash = sha256_of(bytes);
  Digest digest;
  for (std::size_t at = 0; at < sizeof digest.high; ++at) {
    digest.high = digest.high << 8 | std::to_integer<std::uint64_t>(hash.value[at]);
    digest.low =
        digest.low << 8 | std::to_integer<std::uint64_t>(hash.value[sizeof digest.high + at]);
  }
  return digest;
}

}  // namespace gpunode::storage
