#include "runtime/base/block_digest.hpp"

#include <gtest/gtest.h>

namespace gpunode {
namespace {

Bytes bytes_of_length(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  return bytes;
}

TEST(BlockDigest, of_one_block_is_the_digest_of_its_bytes) {
  for (std::size_t count : {std::size_t{0}, std::size_t{1}, kDigestBlockBytes}) {
    const Bytes bytes = bytes_of_length(count);
    EXPECT_EQ(digest_block_count(count), 1u);
    EXPECT_EQ(block_digest_of(bytes), digest_of(bytes));
  }
}

TEST(BlockDigest, of_more_blocks_depends_on_every_byte_and_on_the_length) {
  Bytes bytes = bytes_of_length(2 * kDigestBlockBytes + 5);
  EXPECT_EQ(digest_block_count(bytes.size()), 3u);
  const Digest whole = block_digest_of(bytes);
  EXPECT_NE(whole, block_digest_of(ByteView(bytes).first(bytes.size() - 1)));
  for (std::size_t place : {std::size_t{0}, kDigestBlockBytes, bytes.size() - 1}) {
    bytes[place] ^= std::byte{1};
    EXPECT_NE(block_digest_of(bytes), whole) << place;
    bytes[place] ^= std::byte{1};
  }
  EXPECT_EQ(block_digest_of(bytes), whole);
}

}  // namespace
}  // namespace gpunode
