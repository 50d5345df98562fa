// A job's ledger as JSON, for `job show`, `job log`, `jobs` and `train --follow`; the CLI turns it
// into text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <map>
#include <string>

#include "actors/cluster_state.hpp"
#include "actors/job/disk_watch.hpp"
#include "actors/job/job_ledger.hpp"
#include "actors/job/job_phase.hpp"
#include "actors/messages.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::jobs {

struct ReportInput {
  const JobId& id;
  const job::JobSpec& spec;
  const JobLedger& ledger;
  const job::JobStatus& status;
  const ClusterSnapshot& cluster;
  JobPhase phase;
  std::string reason;
  Time now{};
  const std::map<NodeId, std::string>& refused;  // who takes no part, and why
  std::vector<DamagedCheckpoint> damaged = {};   // checkpoints kept aside here
  std::optional<LateTask> late_disk = {};
  bool result_elsewhere = false;  // the disk here did not take it
};

// One line of progress: step, loss, speed, members, time left.
std::string progress_json(const ReportInput& input);
// Everything that is known here.
std::string report_json(const ReportInput& input);
// Adds to the times of a report of earlier, or of a job's line, how long they are ago.
void add_ages(nlohmann::json& report, std::chrono::system_clock::time_point wall);
// Of such a report what a command asks for: all of it "job.show", progress alone "job.progress".
nlohmann::json told_part(const std::string& command, nlohmann::json report);
// What happened and when: every event and commit that is kept, in seconds since 1970.
std::string log_json(const ReportInput& input);

}  // namespace gpunode::jobs
