#include "actors/job/job_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace gpunode::jobs {
namespace {

// Two members are no quorum: what they commit is reported once their lease is known to have held.
TEST(JobReport, what_was_fed_is_told_with_the_step_that_it_goes_up_to) {
  JobLedger ledger(100);
  job::Committed committed;
  committed.step = 5;
  committed.running = {{1, 2}, 20};
  ledger.on_committed(Time{}, committed);
  ledger.know_host_traffic(70, 9000);
  job::JobStatus status;
  status.needs_lease = true;
  status.reported = 3;
  status.carried = 4;
  const JobId id{1, 1};
  const job::JobSpec spec;
  const ClusterSnapshot cluster;
  const nlohmann::json report = nlohmann::json::parse(
      report_json({id, spec, ledger, status, cluster, JobPhase::running, "", Time{}, {}}));
  EXPECT_EQ(report["step"], 3);
  EXPECT_EQ(report["data_fingerprint"]["steps"], 5);
  EXPECT_EQ(report["data_fingerprint"]["samples"], 20);
  EXPECT_EQ(report["host_bytes_per_step"]["to_device"], 70);
  EXPECT_EQ(report["host_bytes_per_step"]["to_host"], 9000);
  EXPECT_EQ(report["carried_steps"], 4);
}

TEST(JobReport, names_a_hang_what_no_checkpoint_holds_and_who_was_lost) {
  JobLedger ledger(100);
  job::Committed committed;
  committed.step = 21;
  ledger.on_committed(Time{}, committed);
  ledger.on_checkpoint(10, "/there");
  job::JobStatus status;
  status.durable.name.step = 15;
  status.hang = job::Watchdog::Hang{job::Watchdog::Work::compute, std::chrono::seconds(12), {}};
  NodeId gone;
  gone.value[0] = std::byte{1};
  status.lost.push_back({gone, "its compute has not answered", 20});
  const JobId id{1, 1};
  const job::JobSpec spec;
  const ClusterSnapshot cluster;
  const nlohmann::json report = nlohmann::json::parse(
      report_json({id, spec, ledger, status, cluster, JobPhase::running, "", Time{}, {}}));
  EXPECT_EQ(report["hang"]["work"], "compute");
  EXPECT_EQ(report["hang"]["seconds"], 12.0);
  EXPECT_EQ(report["unsaved_steps"], 6);
  ASSERT_EQ(report["lost_members"].size(), 1u);
  EXPECT_EQ(report["lost_members"][0]["id"], gone.text());
  EXPECT_EQ(report["lost_members"][0]["reason"], "its compute has not answered");
  EXPECT_EQ(report["lost_members"][0]["step"], 20);
  EXPECT_FALSE(report.contains("skipped_steps"));
  EXPECT_FALSE(report.contains("utilisation")) << "not known";
}

TEST(JobReport, one_that_is_shown_later_tells_how_long_ago_things_happened_by_then) {
  auto report = nlohmann::json::parse(
      R"({"events":[{"at":100.0,"seconds_ago":0.0,"text":"finished"}],"finished_at":101.0,
          "as_of":{"at":90.0}})");
  const auto later = std::chrono::system_clock::time_point(std::chrono::seconds(160));
  add_ages(report, later);
  EXPECT_EQ(report["events"][0]["seconds_ago"], 60.0);
  EXPECT_EQ(report["finished_seconds_ago"], 59.0);
  EXPECT_EQ(report["as_of"]["seconds_ago"], 70.0);
  nlohmann::json nothing = nlohmann::json::object();
  add_ages(nothing, later);
  EXPECT_TRUE(nothing.empty());
}

TEST(JobReport, of_one_that_is_kept_each_command_tells_its_part) {
  const auto report = nlohmann::json::parse(R"({"step":7,"seed":1,"events":[{"text":"ended"}]})");
  EXPECT_EQ(told_part("job.show", report), report);
  EXPECT_EQ(told_part("job.log", report).dump(), R"({"events":[{"text":"ended"}],"step":7})");
  EXPECT_EQ(told_part("job.progress", report).dump(), R"({"step":7})");
}

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, _] : object.items()) keys.insert(key);
  return keys;
}

TEST(JobReport, of_one_that_is_kept_tells_all_the_progress_that_one_at_work_tells) {
  JobLedger ledger(100);
  job::Committed committed;
  committed.step = 21;
  ledger.on_committed(Time{}, committed);
  ledger.on_skipped(Time{}, 20);
  ledger.know_tokens(64);
  ledger.set_validation(1, 0.5);
  ledger.on_finished(Time{});
  job::JobStatus status;
  status.stall = job::Stall{};
  status.hang = job::Watchdog::Hang{job::Watchdog::Work::compute, std::chrono::seconds(12), {}};
  status.ordered = view::OrderKind::stop;
  status.sync_total_bytes = status.sync_results = status.sync_behind = 1;
  const JobId id{1, 1};
  const job::JobSpec spec;
  const ClusterSnapshot cluster;
  for (const JobPhase phase : {JobPhase::running, JobPhase::learning, JobPhase::finished}) {
    ReportInput input{id, spec, ledger, status, cluster, phase, "why", Time{}, {}};
    input.result_elsewhere = true;
    const auto progress = nlohmann::json::parse(progress_json(input));
    const auto report = nlohmann::json::parse(report_json(input));
    EXPECT_EQ(keys_of(told_part("job.progress", report)), keys_of(progress));
  }
}

}  // namespace
}  // namespace gpunode::jobs
