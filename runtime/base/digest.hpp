// 128-bit non-cryptographic digests (XXH3) for states, results and plans, and 256-bit identifiers.
// A digest tells equal from different among peers that are trusted to compute honestly; signatures
// and file hashes that face strangers use SHA-256 (runtime/storage/checksum.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/bytes.hpp"

struct XXH3_state_s;  // xxHash's

namespace gpunode {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const Digest&) const = default;
  // Sum modulo 2^128: an order-free hash sum over a set. Used to prove which samples were fed.
  Digest& operator+=(const Digest& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    return *this;
  }
  std::string text() const;  // 32 hexadecimal digits
};

Digest digest_of(ByteView bytes, std::uint64_t seed = 0);

// Digest of a sequence of parts, each in order; equal to digest_of over their concatenation.
class DigestStream {
 public:
  DigestStream();
  void add(ByteView bytes);
  Digest value() const;

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

}  // namespace gpunode
