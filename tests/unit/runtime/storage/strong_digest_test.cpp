#include "runtime/storage/strong_digest.hpp"

#include <gtest/gtest.h>

namespace gpunode::storage {
namespace {

TEST(StrongDigest, is_the_first_half_of_sha256) {
  EXPECT_EQ(strong_digest_of(as_bytes("abc")).text(), "ba7816bf8f01cfea414140de5dae2223");
}

}  // namespace
}  // namespace gpunode::storage
