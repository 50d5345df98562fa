// Who was a member and is none any more, and why: told to people. Pure; owned by a JobCore. Keeps
// the newest kMost, and forgets who comes back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::job {

struct LostMember {
  NodeId node;
  std::string reason;
  std::uint64_t step = 0;  // after which the others go on without it
};

class LostMembers {
 public:
  static constexpr std::size_t kMost = 16;

  // Why the next view may do without this node: as it says itself, which counts most, or others.
  void on_doubt(const NodeId& node, const std::string& reason, bool by_itself);
  void on_view(const NodeId& self, const view::View& before, const view::View& next);
  const std::vector<LostMember>& list() const { return lost_; }  // oldest first

 private:
  std::map<NodeId, std::string> reasons_;  // of doubts in this view
  std::vector<LostMember> lost_;
};

}  // namespace gpunode::job
