// What a decoder must stand: bytes that are cut short, flipped, missing or of nobody.
#pragma once

#include <gtest/gtest.h>

#include "runtime/base/bytes.hpp"

namespace gpunode {

// Every truncation is refused and no flipped bit does harm.
template <class Decode>
void expect_robust(const Bytes& good, Decode decode) {
  ASSERT_TRUE(decode(good));
  for (std::size_t size = 0; size < good.size(); ++size)
    (void)decode(Bytes(good.begin(), good.begin() + size));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes flipped = good;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    (void)decode(flipped);
  }
  EXPECT_FALSE(decode({}));
  EXPECT_FALSE(decode(Bytes(1u << 20)));
}

}  // namespace gpunode
