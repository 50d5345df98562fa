// Promises under the cheap twins of nodes' keys, and proofs made of them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "runtime/view/view_agreement.hpp"
#include "tests/support/twin_signer.hpp"

namespace gpunode::view {

// As `node` promises it for the view after `current`.
inline Promise promised_by(const NodeId& node, const View& current, const Ballot& ballot,
                           Standing standing = {}, std::optional<AcceptedView> accepted = {}) {
  std::optional<Claim> claim;
  if (accepted) claim = Claim{accepted->ballot, accepted->view};
  const Bytes promise = promise_bytes(current, ballot, claim, standing);
  const Signature signature = TwinSigner(node).sign(kPromisePurpose, promise);
  return {ballot, std::move(accepted), std::move(standing), signature};
}

// Likewise, as others are shown it.
inline Told told_by(const NodeId& node, const View& current, const Ballot& ballot,
                    const Standing& standing = {}, std::optional<Claim> accepted = {}) {
  const Bytes promise = promise_bytes(current, ballot, accepted, standing);
  return {node, std::move(accepted), standing, TwinSigner(node).sign(kPromisePurpose, promise)};
}

// Of a ballot in which these have promised, and accepted nothing before.
inline Proof proof_by(const std::vector<Promiser>& promisers, const View& current,
                      const Ballot& ballot) {
  Level level{ballot, {}};
  for (const Promiser& one : promisers)
    level.promises.push_back(told_by(one.node, current, ballot, one.standing));
  return {{std::move(level)}, {}};
}

}  // namespace gpunode::view
