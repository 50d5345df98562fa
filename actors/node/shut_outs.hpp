// Who lets this node in no more, as is said at their addresses. Nothing proves it; but where a node sees no
// other, that is why. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "actors/cluster_state.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::node {

class ShutOuts {
 public:
  // Whether that is news: it has not said so in the last hour.
  bool add(const NodeId& by, Time now);
  void forget(const NodeId& by);  // there is a session with it
  // That the node was put out, and what helps; nothing: it sees others, or nobody says so.
  std::optional<Error> put_out(const ClusterSnapshot& cluster) const;

 private:
  mutable std::mutex mutex_;
  std::map<NodeId, Time> by_;
};

// The same of one: for the log.
std::string lets_in_no_more(const std::string& name);

}  // namespace gpunode::node
