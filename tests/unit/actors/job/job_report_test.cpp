#include "actors/job/job_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpunode::jobs {
namespace {

// Two members are no quorum: what they commit is reported once their lease is known to have held.
TEST(JobReport, what_was_fed_is_told_with_the_step_that_it_goes_up_to) {
  JobLedger ledger(100);
  job::Committed committed;
  committed.step = 5;
  committed.running = {{1, 2}, 20};
  ledger.on_committed(Time{}, committed);
  job::JobStatus status;
  status.needs_lease = true;
  status.reported = 3;
  const JobId id{1, 1};
  const job::JobSpec spec;
  const ClusterSnapshot cluster;
  const nlohmann::json report = nlohmann::json::parse(
      report_json({id, spec, ledger, status, cluster, JobPhase::running, "", Time{}, {}, {}}));
  EXPECT_EQ(report["step"], 3);
  EXPECT_EQ(report["data_fingerprint"]["steps"], 5);
  EXPECT_EQ(report["data_fingerprint"]["samples"], 20);
}

}  // namespace
}  // namespace gpunode::jobs
