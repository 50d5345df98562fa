#include "actors/job/last_hints.hpp"

#include <algorithm>

#include "actors/job/job_line.hpp"

namespace gpunode::jobs {
namespace {

constexpr std::size_t kMostJobs = 256, kMostTellers = 64;

}  // namespace

void LastHints::on_hint(Time now, const JobId& id, const NodeId& by, const JobHint& hint) {
  if (by_job_.size() == kMostJobs && !by_job_.contains(id))
    by_job_.erase(
        std::min_element(by_job_.begin(), by_job_.end(),
                         [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
  Last& last = by_job_[id];
  const bool part = hint.phase != JobPhase::outsider && hint.phase != JobPhase::failed;
  if (part && last.tellers.size() < kMostTellers) last.tellers.insert(by);
  const bool newer = last.at == Time{} || hint.step >= last.hint.step || last.by == by;
  if (newer) {
    last.hint = hint;
    last.by = by;
  }
  last.at = now;
}

std::string LastHints::reason_of(const Last& last, const ClusterSnapshot& cluster, Time now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - last.at).count();
  std::string text =
      "last told by " + cluster.name_of(last.by) + " " + std::to_string(seconds) + " s ago";
  std::vector<NodeId> away(last.tellers.begin(), last.tellers.end());
  std::erase_if(away, [&](const NodeId& node) { return cluster.alive(node); });
  return away.empty() ? text : text + "; waiting for " + cluster.list_of(away);
}

void LastHints::add_to(nlohmann::json& list, const ClusterSnapshot& cluster, Time now) const {
  for (const auto& [id, last] : by_job_) {
    if (is_listed(list, id.text())) continue;
    nlohmann::json& line = list.emplace_back(hint_line(id.text(), last.hint));
    if (!last.hint.ended) line["phase"] = "unreachable";
    line["reason"] = reason_of(last, cluster, now);
  }
}

std::optional<std::string> LastHints::text_of(const std::string& wanted,
                                              const ClusterSnapshot& cluster, Time now) const {
  for (const auto& [id, last] : by_job_) {
    const bool prefix = !wanted.empty() && id.text().starts_with(wanted);
    if (last.hint.name != wanted && !prefix) continue;
    return "no node that has a part in job '" + last.hint.name +
           "' can be reached: it was at step " + std::to_string(last.hint.step) + "/" +
           std::to_string(last.hint.steps) + ", " + reason_of(last, cluster, now);
  }
  return std::nullopt;
}

}  // namespace gpunode::jobs
