#include "runtime/base/block_digest.hpp"

#include <algorithm>
#include <vector>

namespace gpunode {

std::size_t digest_block_count(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kDigestBlockBytes - 1) / kDigestBlockBytes);
}

Digest join_block_digests(std::span<const Digest> blocks) {
  if (blocks.size() == 1) return blocks.front();
  Bytes joined;
  joined.reserve(blocks.size() * 16);
  for (const Digest& block : blocks) {
    append_number(joined, block.high);
    append_number(joined, block.low);
  }
  return digest_of(joined);
}

Digest block_digest_of(ByteView bytes) {
  std::vector<Digest> blocks(digest_block_count(bytes.size()));
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const std::size_t first = block * kDigestBlockBytes;
    blocks[block] =
        digest_of(bytes.subspan(first, std::min(kDigestBlockBytes, bytes.size() - first)));
  }
  return join_block_digests(blocks);
}

}  // namespace gpunode
