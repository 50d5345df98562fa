#include "runtime/job/lost_members.hpp"

namespace gpunode::job {

namespace {
constexpr const char* kNotTold = "the others went on without it";
}  // namespace

void LostMembers::on_doubt(const NodeId& node, const std::string& reason, bool by_itself) {
  if (by_itself)
    reasons_[node] = reason;
  else if (reason.find(node.short_text()) != std::string::npos)
    reasons_.try_emplace(node, reason);
  else  // it was doubted too when the view ended, for the sake of another one
    reasons_.try_emplace(node, "it does not answer");
}

void LostMembers::on_view(const NodeId& self, const view::View& before, const view::View& next) {
  std::erase_if(lost_, [&](const LostMember& one) { return next.rank_of(one.node).has_value(); });
  for (const view::Member& one : before.members) {
    if (one.node == self || next.rank_of(one.node)) continue;
    const auto told = reasons_.find(one.node);
    std::erase_if(lost_, [&](const LostMember& other) { return other.node == one.node; });
    lost_.push_back({one.node, told == reasons_.end() ? kNotTold : told->second, next.base_step});
  }
  if (lost_.size() > kMost)
    lost_.erase(lost_.begin(), lost_.end() - static_cast<std::ptrdiff_t>(kMost));
  reasons_.clear();
}

}  // namespace gpunode::job
