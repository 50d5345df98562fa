// Orders that put a node out, as the tests of the list of nodes sign them.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/security/admission.hpp"

namespace gpunode::testing {

// `kept`: the node's admissions that stand.
inline security::Revocation revocation_by(const security::Identity& issuer,
                                          const security::Identity& node,
                                          const security::ClusterId& cluster,
                                          security::WallTime issued,
                                          const std::vector<security::Admission>& kept) {
  security::Revocation order{cluster, node.id(), "sold", {}, issued, {}, {}};
  for (const security::Admission& one : kept) order.kept.push_back(one.digest());
  std::ranges::sort(order.kept);
  order.sign(issuer);
  return order;
}

}  // namespace gpunode::testing
