// Members that told a record with a wrong signature. Whoever checks what it hears passes none on, so
// they are not heard of such records for a while: the looking takes more time than the telling. Of very
// many at once all are heard again.
// Owned by the admission actor.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::security {

class Forgers {
 public:
  static constexpr Duration kDeafFor = std::chrono::seconds(10);

  bool hears(const NodeId& node, Time now) const {
    const auto found = deaf_until_.find(node);
    return found == deaf_until_.end() || now >= found->second;
  }
  void caught(const NodeId& node, Time now) {
    if (deaf_until_.size() >= kMany)
      std::erase_if(deaf_until_, [&](const auto& one) { return now >= one.second; });
    if (deaf_until_.size() >= kMany) deaf_until_.clear();
    deaf_until_[node] = now + kDeafFor;
  }

 private:
  static constexpr std::size_t kMany = 1024;
  std::map<NodeId, Time> deaf_until_;
};

}  // namespace gpunode::security
