// One trace of a job in the making: asks every member for its clock, several times, then for its
// spans, and answers with all of them on one clock. A short-lived actor, so that a slow member
// holds up nothing else; a member that does not answer is named in the trace.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::jobs {

struct TraceOptions {
  JobId job;
  std::string name;
  std::vector<NodeId> members;  // by rank
  std::uint64_t from_step = 0;
  const ClusterState* cluster = nullptr;
  const Clock* clock = nullptr;
  caf::actor calls;
  std::function<void(std::string)> answer;  // JSON: the trace, or an error
};
void spawn_trace(caf::actor_system& system, TraceOptions options);

}  // namespace gpunode::jobs
