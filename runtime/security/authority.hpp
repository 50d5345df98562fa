// What a node can prove and what it can check of others: signatures by the nodes' keys, and rights
// as they are at this moment. Made by the node from its identity and its admissions; any thread.
#pragma once

#include <functional>
#include <string_view>

#include "runtime/security/keys.hpp"
#include "runtime/security/rights.hpp"

namespace gpunode::security {

struct Authority {
  NodeId self;
  // None for a stranger, one that was put out and one whose admission has expired.
  std::function<Rights(const NodeId&)> rights;
  std::function<Signature(std::string_view purpose, ByteView message)> sign;
  // Whether `by` has signed it; false also where its key is not known here.
  std::function<bool(const NodeId& by, std::string_view purpose, ByteView message,
                     const Signature& signature)>
      verify;
  // Told of each member that asked for what it may not; counted for the audit log. May be null.
  std::function<void(const NodeId& by, std::string_view what)> on_refused = {};

  bool may(const NodeId& node, Rights any_of) const { return (rights(node) & any_of) != 0; }
  void refused(const NodeId& by, std::string_view what) const {
    if (on_refused && by != self) on_refused(by, what);
  }
};

}  // namespace gpunode::security
