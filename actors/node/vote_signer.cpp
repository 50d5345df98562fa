#include "actors/node/vote_signer.hpp"

#include <algorithm>

namespace gpunode::node {

view::Signature VoteSigner::sign(std::string_view purpose, ByteView message) const {
  const security::Signature made = identity_.sign(purpose, message);
  view::Signature signature;
  const auto& key = identity_.sign_key().value;
  static_assert(sizeof(view::Signature) == sizeof(security::SignKey) + sizeof(security::Signature));
  std::ranges::copy(made, std::ranges::copy(key, signature.begin()).out);
  return signature;
}

bool VoteSigner::verify(const NodeId& node, std::string_view purpose, ByteView message,
                        const view::Signature& signature) const {
  security::SignKey key;
  security::Signature made;
  std::copy_n(signature.begin(), key.value.size(), key.value.begin());
  std::copy_n(signature.begin() + key.value.size(), made.size(), made.begin());
  return security::node_id_of(key) == node && security::verify(key, purpose, message, made);
}

}  // namespace gpunode::node
