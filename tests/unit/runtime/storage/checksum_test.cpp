#include "runtime/storage/checksum.hpp"

#include <gtest/gtest.h>

namespace gpunode::storage {
namespace {

// Source of the vectors: FIPS 180-2, appendix B.
TEST(Sha256, known_vectors) {
  EXPECT_EQ(sha256_of({}).text(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of(as_bytes("abc")).text(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, of_a_stream_is_that_of_the_whole) {
  Bytes bytes(3'000'001);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  Sha256 whole = sha256_of(bytes);
  Sha256Stream stream;
  stream.add(ByteView(bytes).first(1));
  stream.add(ByteView(bytes).subspan(1, 1'500'000));
  stream.add(ByteView(bytes).subspan(1'500'001));
  EXPECT_EQ(stream.finish(), whole);
}

TEST(Sha256, parses_its_own_text_and_nothing_else) {
  Sha256 hash = sha256_of(as_bytes("x"));
  EXPECT_EQ(Sha256::parse(hash.text()), hash);
  EXPECT_FALSE(Sha256::parse("").has_value());
  EXPECT_FALSE(Sha256::parse(hash.text() + "00").has_value());
  EXPECT_FALSE(Sha256::parse(std::string(64, 'g')).has_value());
}

}  // namespace
}  // namespace gpunode::storage
