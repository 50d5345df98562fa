// A job's ledger as JSON, for `job show`, `jobs` and `train --follow`; the CLI turns it into text.
#pragma once

#include <string>

#include "actors/cluster_state.hpp"
#include "actors/exchange/job_ledger.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::exchange {

struct ReportInput {
  const JobId& id;
  const job::JobSpec& spec;
  const JobLedger& ledger;
  const job::JobStatus& status;
  const ClusterSnapshot& cluster;
  std::string phase;
  std::string reason;
  Time now{};
};

// One line of progress: step, loss, speed, members, time left.
std::string progress_json(const ReportInput& input);
// Everything that is known here.
std::string report_json(const ReportInput& input);

}  // namespace gpunode::exchange
