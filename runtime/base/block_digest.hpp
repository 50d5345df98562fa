// Digest of a large state whose blocks several threads can hash: of one block it is the block's own
// digest, of more the digest of all their digests in order. The borders follow from the length
// alone.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/digest.hpp"

namespace gpunode {

inline constexpr std::size_t kDigestBlockBytes = std::size_t{64} << 10;

// How many blocks so many bytes have; nothing is one empty block.
std::size_t digest_block_count(std::size_t bytes);
// Out of the digests of all blocks.
Digest join_block_digests(std::span<const Digest> blocks);
Digest block_digest_of(ByteView bytes);

}  // namespace gpunode
