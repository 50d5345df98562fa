#include "actors/job/known_step.hpp"

#include <algorithm>

namespace gpunode::jobs {
namespace {

// Whether a node in this phase hears of steps and does not make them.
bool only_hears(JobPhase phase) {
  switch (phase) {
    case JobPhase::preparing:
    case JobPhase::forming:
    case JobPhase::outsider:
    case JobPhase::witness:
    case JobPhase::learning:
    case JobPhase::paused:
    case JobPhase::failed:
      return true;
    default:
      return false;
  }
}

}  // namespace

void HeardStep::on_hints(Time now, const std::vector<HeardHint>& hints,
                         const ClusterSnapshot& cluster) {
  for (const auto& [id, from, hint] : hints) {
    if (only_hears(hint.phase) || hint.step == 0 || !cluster.alive(from)) continue;
    if (newest_ && hint.step <= newest_->step) continue;
    newest_ = KnownStep{hint.step, {}, now, "told by " + cluster.name_of(from)};
    if (hint.loss != 0) newest_->loss = hint.loss;
  }
}

KnownStep known_step(const JobLedger& ledger, const job::JobStatus& status, JobPhase phase,
                     const HeardStep& heard) {
  KnownStep out;
  const JobHistory& history = ledger.history();
  const std::uint64_t newest = history.newest().step;
  // Where a lease is needed, only what was committed while it held.
  out.step = status.needs_lease && ledger.is_current() ? status.reported
                                                       : std::max(newest, status.reported);
  if (const JobHistory::Commit* commit = history.commit_of(out.step)) {
    if (commit->time != Time{}) out.at = commit->time;
    out.loss = commit->loss;
  }
  if (out.step == newest) out.loss = ledger.seen().loss;
  if (only_hears(phase) && heard.newest() && heard.newest()->step > out.step)
    return *heard.newest();
  if (out.step == 0) return out;
  if (!ledger.is_current() && out.step == newest && phase != JobPhase::finished)
    out.how = "before this node was started again";
  else if (phase == JobPhase::paused || phase == JobPhase::failed || phase == JobPhase::outsider)
    out.how = "as far as is known here";
  return out;
}

}  // namespace gpunode::jobs
