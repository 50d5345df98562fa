#include "actors/node/shut_outs.hpp"

#include <algorithm>
#include <vector>

namespace gpunode::node {
namespace {
constexpr Duration kToldEvery = std::chrono::hours(1);
}

bool ShutOuts::add(const NodeId& by, Time now) {
  std::lock_guard lock(mutex_);
  const auto [told, is_new] = by_.try_emplace(by, now);
  if (!is_new && now < told->second + kToldEvery) return false;
  told->second = now;
  return true;
}

void ShutOuts::forget(const NodeId& by) {
  std::lock_guard lock(mutex_);
  by_.erase(by);
}

std::optional<Error> ShutOuts::put_out(const ClusterSnapshot& cluster) const {
  if (std::ranges::any_of(cluster.nodes, [&](const NodeInfo& node) {
        return node.id != cluster.self && node.lives();
      }))
    return {};
  std::vector<NodeId> by;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [node, when] : by_) by.push_back(node);
  }
  if (by.empty()) return {};
  return Error{ErrorCode::permission_denied, lets_in_no_more(cluster.list_of(by))};
}

std::string lets_in_no_more(const std::string& name) {
  return name +
         " lets this node in no more, as is said at its address: it was put out of the cluster "
         "there. It comes back with a new --state directory and a new token, or by `gpunode "
         "cluster refound`";
}

}  // namespace gpunode::node
