#include "actors/job/last_hints.hpp"

#include <algorithm>

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
  std::string who;
  for (const NodeId& node : last.tellers)
    if (!cluster.alive(node)) who += (who.empty() ? "" : ", ") + cluster.name_of(node);
  return who.empty() ? text : text + "; waiting for " + who;
}

void LastHints::add_to(nlohmann::json& list, const ClusterSnapshot& cluster, Time now) const {
  for (const auto& [id, last] : by_job_) {
    const bool listed = std::any_of(list.begin(), list.end(), [&](const nlohmann::json& line) {
      return line.value("job", "") == id.text();
    });
    if (listed) continue;
    const JobHint& hint = last.hint;
    list.push_back({{"job", id.text()},
                    {"name", hint.name},
                    {"phase", hint.ended ? std::string(to_string(hint.phase)) : "unreachable"},
                    {"reason", reason_of(last, cluster, now)},
                    {"step", hint.step},
                    {"steps", hint.steps},
                    {"view", hint.view_id}});
    if (hint.loss != 0) list.back()["loss"] = hint.loss;
  }
}

std::optional<std::string> LastHints::text_of(const std::string& wanted,
                                              const ClusterSnapshot& cluster, Time now) const {
  for (const auto& [id, last] : by_job_) {
    const bool prefix = wanted.size() >= 4 && id.text().starts_with(wanted);
    if (last.hint.name != wanted && !prefix) continue;
    return "no node that has a part in job '" + last.hint.name +
           "' can be reached: it was at step " + std::to_string(last.hint.step) + "/" +
           std::to_string(last.hint.steps) + ", " + reason_of(last, cluster, now);
  }
  return std::nullopt;
}

}  // namespace gpunode::jobs
