// How far a job is as far as this node knows, and since when it knows that: what it made itself, what
// it knew before it was started again, or what members tell a node that makes no steps. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/job/job_ledger.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_phase.hpp"
#include "runtime/job/job_core.hpp"

namespace gpunode::jobs {

struct KnownStep {
  std::uint64_t step = 0;
  std::optional<double> loss;  // of that step
  std::optional<Time> at;      // when it was made, or told
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

KnownStep known_step(const JobLedger& ledger, const job::JobStatus& status, JobPhase phase,
                     const HeardStep& heard);

}  // namespace gpunode::jobs
