// Signatures for the tests of this folder: a digest keyed by the owner's id.
#pragma once

#include <cstring>

#include "runtime/directory/directory.hpp"

namespace gpunode::directory {

inline NodeId test_id(int index) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(index);
  return id;
}

inline Bytes test_sign(const NodeId& owner, ByteView message) {
  const Digest digest = digest_of(message, static_cast<std::uint64_t>(owner.value[0]));
  return to_bytes(std::as_bytes(std::span(&digest, 1)));
}

inline DirectorySigning test_signing(int index) {
  DirectorySigning signing;
  signing.hash = [](ByteView bytes) {
    Hash out{};
    const Digest digest = digest_of(bytes);
    std::memcpy(out.data(), &digest, sizeof digest);
    return out;
  };
  signing.sign = [index](ByteView message) { return test_sign(test_id(index), message); };
  signing.verify = [](const NodeId& owner, ByteView message, ByteView signature) {
    return test_sign(owner, message) == to_bytes(signature);
  };
  return signing;
}

}  // namespace gpunode::directory
