// How far a job is as far as this node knows, and since when it knows that; and what members tell a
// node that makes no steps. Pure; owned by the job's ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_phase.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::jobs {

struct KnownStep {
  std::uint64_t step = 0;
  std::optional<double> loss;  // of that step
  std::optional<Time> at;      // when it was made, or told
  bool told = false;           // by another node, and later than all that was made here
  std::string how;             // why the job may be further by now; empty: as far as anybody knows
};

// The newest step that a member of the job told, and when that was news.
class HeardStep {
 public:
  // What the directory shows now, also of who does not make steps.
  void on_hints(Time now, const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster);
  const std::optional<KnownStep>& newest() const { return newest_; }

 private:
  std::optional<KnownStep> newest_;
};

// Whether a node in this phase hears of steps and does not make them.
bool only_hears(JobPhase phase);

}  // namespace gpunode::jobs
