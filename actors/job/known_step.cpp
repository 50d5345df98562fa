#include "actors/job/known_step.hpp"

namespace gpunode::jobs {

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

void HeardStep::on_hints(Time now, const std::vector<HeardHint>& hints,
                         const ClusterSnapshot& cluster) {
  for (const auto& [id, from, hint] : hints) {
    if (only_hears(hint.phase) || hint.step == 0 || !cluster.alive(from)) continue;
    if (newest_ && hint.step <= newest_->step) continue;
    newest_ = KnownStep{hint.step, {}, now, true, "told by " + cluster.name_of(from)};
    if (hint.loss != 0) newest_->loss = hint.loss;
  }
}

}  // namespace gpunode::jobs
