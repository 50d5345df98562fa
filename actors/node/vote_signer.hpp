// The votes of this node's jobs, under its own Ed25519 key. Any thread.
#pragma once

#include "runtime/security/identity.hpp"
#include "runtime/view/signer.hpp"

namespace gpunode::node {

class VoteSigner : public view::Signer {
 public:
  explicit VoteSigner(const security::Identity& identity) : identity_(identity) {}

  view::Signature sign(std::string_view purpose, ByteView message) const override;
  bool verify(const NodeId& node, std::string_view purpose, ByteView message,
              const view::Signature& signature) const override;

 private:
  const security::Identity& identity_;
};

}  // namespace gpunode::node
