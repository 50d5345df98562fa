// Orders of people under the cheap twin of a node's key (twin_signer.hpp), and who judges them.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/view/signed_order.hpp"
#include "tests/support/twin_signer.hpp"

namespace gpunode::view {

inline SignedOrder signed_by_twin(SignedOrder order) {
  const Signature made = TwinSigner(order.by).sign(kOrderPurpose, order.signed_bytes());
  std::copy_n(made.begin(), order.signature.size(), order.signature.begin());
  return order;
}

// The later, the higher its number.
inline SignedOrder order_of(const JobId& job, const NodeId& by, OrderKind kind, std::int64_t number,
                            std::uint64_t step = 0, bool anew = false) {
  return signed_by_twin({job, kind, step, anew, by, number, number + 1000, {}});
}

// Of those that may order, by their own signature, whatever the time.
inline MayOrder orders_of(std::function<bool(const NodeId&)> may) {
  return [may = std::move(may)](const SignedOrder& order, OrderUse) -> Result<void> {
    if (may(order.by) && signed_by_twin(order) == order) return {};
    return Error{ErrorCode::permission_denied, "nobody's order that may give one"};
  };
}

}  // namespace gpunode::view
