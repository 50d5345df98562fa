// A manifest as the bytes of its file: FlatBuffer (schemas/checkpoint.fbs), then the SHA-256 of it.
// The reader trusts nothing: hash, file identifier, table limits and every count are checked.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/snapshot/manifest.hpp"

namespace gpunode::snapshot {

inline constexpr std::uint64_t kManifestLimitBytes = 256u << 20;
inline constexpr std::uint32_t kManifestFormat = 1;

Bytes encode_manifest(const Manifest& manifest);

// Fails with corrupted (names what is wrong) or unsupported (a later format).
Result<Manifest> decode_manifest(ByteView bytes);

}  // namespace gpunode::snapshot
