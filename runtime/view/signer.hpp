// Who signs for this node, and tells whether others have signed: what is said in a view change is
// believed for its signature, whoever brings it. Production has the node's Ed25519 key
// (actors/node/vote_signer.hpp); the simulator a cheap twin, by which only the owner can sign.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::view {

// With the key that made it, as a node's id is the hash of its key: so it can be verified by whoever
// sees it, also long after its node was put out.
using Signature = std::array<std::byte, 96>;

class Signer {
 public:
  virtual ~Signer() = default;
  // The purpose, a short constant text, keeps what is signed for one thing from being taken for
  // another.
  virtual Signature sign(std::string_view purpose, ByteView message) const = 0;
  // Whether `node` signed it.
  virtual bool verify(const NodeId& node, std::string_view purpose, ByteView message,
                      const Signature& signature) const = 0;
};

}  // namespace gpunode::view
