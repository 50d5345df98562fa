// The cheap twin of a node's key: each signs for itself alone, anybody verifies. And views that were
// decided, with the signatures of those that are said to have accepted them.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/view/view_chain.hpp"

namespace gpunode::view {

class TwinSigner : public Signer {
 public:
  explicit TwinSigner(const NodeId& self) : self_(self) {}

  Signature sign(std::string_view purpose, ByteView message) const override {
    return made_by(self_, purpose, message);
  }
  bool verify(const NodeId& node, std::string_view purpose, ByteView message,
              const Signature& signature) const override {
    return signature == made_by(node, purpose, message);
  }

 private:
  static Signature made_by(const NodeId& node, std::string_view purpose, ByteView message) {
    const std::uint64_t secret = mix(digest_of(node.value).low, 0x7319);
    const Digest made = digest_of(message, mix(secret, digest_of(as_bytes(purpose)).low));
    Signature signature{};
    std::memcpy(signature.data(), &made, sizeof made);
    return signature;
  }

  NodeId self_;
};

// `next` as it is decided after `before` by the votes of these.
inline DecidedView decided_by(const View& before, View next, const std::vector<NodeId>& voters) {
  next.previous = before.digest();
  DecidedView decided{std::move(next), {1, before.tie}, before.acceptors, before.tie, {}};
  const std::string_view purpose = decided.is_split() ? kSplitPurpose : kVotePurpose;
  const Bytes vote = vote_bytes(decided);
  for (const NodeId& voter : voters)
    decided.seals.push_back({voter, TwinSigner(voter).sign(purpose, vote)});
  return decided;
}

}  // namespace gpunode::view
