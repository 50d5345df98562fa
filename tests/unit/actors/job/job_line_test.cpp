#include "actors/job/job_line.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

TEST(JobLine, tells_a_loss_only_where_the_node_knows_one) {
  JobProgress progress;
  progress.step = 5;
  telemetry::Registry metrics;
  record_metrics(metrics, "tiny", progress);
  EXPECT_FALSE(job_line({}, "tiny", progress, {}).contains("loss"));
  EXPECT_EQ(metrics.prometheus_text().find("gpunode_job_loss"), std::string::npos);
  progress.loss = 2.5;
  record_metrics(metrics, "tiny", progress);
  EXPECT_EQ(job_line({}, "tiny", progress, {})["loss"], 2.5);
  EXPECT_NE(metrics.prometheus_text().find("gpunode_job_loss"), std::string::npos);
}

TEST(JobLine, series_of_two_jobs_of_one_name_are_two) {
  JobProgress first, second;
  first.id = {1, 2};
  first.phase = JobPhase::finished;
  first.step = 9;
  second.id = {3, 4};
  second.damaged_checkpoints = 2;
  telemetry::Registry metrics;
  record_metrics(metrics, "tiny", first);
  record_metrics(metrics, "tiny", second);
  count_damaged(metrics, "tiny", second, 0);
  const std::string text = metrics.prometheus_text();
  const auto at = [](const JobId& id) { return "{job=\"tiny\",job_id=\"" + id.text() + "\""; };
  for (const std::string& line : {"gpunode_job_committed_step" + at(first.id) + "} 9\n",
                                  "gpunode_job_committed_step" + at(second.id) + "} 0\n",
                                  "gpunode_job_phase" + at(first.id) + ",phase=\"finished\"} 1\n",
                                  "gpunode_job_phase" + at(first.id) + ",phase=\"running\"} 0\n",
                                  "gpunode_checkpoints_damaged_total" + at(second.id) + "} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(JobLine, a_job_that_rests_has_no_speed) {
  JobProgress progress;
  telemetry::Registry metrics;
  const auto speed = [&](JobPhase phase) {
    progress.phase = phase;
    progress.tokens_per_second = 300;
    record_metrics(metrics, "tiny", progress);
    const std::string text = metrics.prometheus_text();
    const std::size_t at = text.find("gpunode_job_tokens_per_second{");
    return text.substr(text.find("} ", at) + 2, 1);
  };
  for (const JobPhase phase : {JobPhase::finished, JobPhase::failed, JobPhase::stopped}) {
    EXPECT_EQ(speed(JobPhase::running), "3");
    EXPECT_EQ(speed(phase), "0") << to_string(phase);
  }
}

TEST(JobLine, of_a_job_that_ended_is_that_of_its_last_report) {
  const JobProgress failed = progress_of(
      {1, 2}, R"({"phase":"failed","reason":"no memory","step":7,"steps":50,"view":3})");
  EXPECT_EQ(failed.id, (JobId{1, 2}));
  EXPECT_EQ(failed.phase, JobPhase::failed);
  EXPECT_EQ(failed.reason, "no memory");
  EXPECT_EQ(failed.step, 7u);
  EXPECT_EQ(failed.total_steps, 50u);
  EXPECT_EQ(failed.view_id, 3u);
  EXPECT_TRUE(failed.ended);
  EXPECT_EQ(ended_line(R"({"step":7,"loss":2.5,"seed":1})").dump(), R"({"loss":2.5,"step":7})");
  EXPECT_EQ(progress_of({}, R"({"phase":"finished"})").phase, JobPhase::finished);
  EXPECT_EQ(progress_of({}, "damaged").phase, JobPhase::failed) << "so that it can be resumed";
}

TEST(JobLine, says_names_for_ids_and_the_job_in_commands) {
  ClusterSnapshot cluster;
  NodeInfo info;
  info.id.value[0] = std::byte{0xab};
  info.name = "b";
  cluster.nodes = {info};
  EXPECT_EQ(in_words("node ab000000 is gone", cluster, "j"), "node b is gone");
  EXPECT_EQ(in_words("ab000000, ab000000ff, xab000000", cluster, "j"), "b, ab000000ff, xab000000");
  EXPECT_EQ(
      in_words("`gpunode job resume --from 0` starts anew; see `gpunode job show`", cluster, "j"),
      "`gpunode job resume j --from 0` starts anew; see `gpunode job show j`");
}

// Live nodes a, b, ... of the ids 1, 2, ...
ClusterSnapshot cluster_of(int count) {
  ClusterSnapshot cluster;
  for (int number = 1; number <= count; ++number) {
    NodeInfo info;
    info.id = node(number);
    info.name = std::string(1, static_cast<char>('a' + number - 1));
    info.health = PeerHealth::alive;
    cluster.nodes.push_back(info);
  }
  return cluster;
}

// An entry of the directory about the job {1, 2} by a node whose id begins with that byte.
DirectoryEntry told_by(int node, JobPhase phase, std::uint64_t step) {
  DirectoryEntry entry;
  entry.owner.value[0] = static_cast<std::byte>(node);
  entry.key = "job/" + JobId{1, 2}.text();
  JobHint hint;
  hint.phase = phase;
  hint.step = step;
  hint.steps = 9;
  entry.value = encode(hint);
  return entry;
}

TEST(JobLine, of_a_job_of_others_is_that_of_the_live_node_that_knows_most) {
  ClusterSnapshot cluster = cluster_of(4);
  cluster.nodes[3].health = PeerHealth::dead;
  cluster.self.value[0] = std::byte{1};
  cluster.entries = {told_by(2, JobPhase::outsider, 0), told_by(3, JobPhase::stopped, 5),
                     told_by(4, JobPhase::running, 7)};
  auto list = nlohmann::json::array();
  add_jobs_of_others(list, cluster);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["known_from"], "c");
  EXPECT_EQ(list[0]["phase"], "stopped");
  EXPECT_EQ(list[0]["step"], 5);
}

TEST(JobLine, of_a_finished_job_tells_all_steps_and_where_its_result_is_not) {
  nlohmann::json line = {{"phase", "finished"}, {"reason", ""}, {"step", 0}, {"steps", 9}};
  tell_of_the_end(line);
  EXPECT_EQ(line["step"], 9);
  EXPECT_EQ(line["reason"], kNoResult);
  nlohmann::json other = {{"phase", "stopped"}, {"reason", ""}, {"step", 4}, {"steps", 9}};
  tell_of_the_end(other);
  EXPECT_EQ(other["step"], 4);
  EXPECT_EQ(other["reason"], "");
}

TEST(JobLine, knows_where_a_result_was_removed_unless_somebody_has_it) {
  const ClusterSnapshot cluster = cluster_of(2);
  HeardHint removed{"", node(2), {}};
  removed.hint.phase = JobPhase::finished;
  removed.hint.step = removed.hint.steps = 9;
  removed.hint.reason = kNoResult;
  HeardHint voted = removed, has = removed, runs = removed;
  voted.hint.reason = has.hint.reason = "";
  has.hint.has_result = true;  // a witness has none, and never had, though it may know of all steps
  runs.hint.phase = JobPhase::running;
  EXPECT_EQ(result_removed_on({removed, voted}, cluster), "b");
  EXPECT_EQ(result_removed_on({removed, has}, cluster), "");
  EXPECT_EQ(result_removed_on({voted, runs}, cluster), "");
  EXPECT_TRUE(has_result(has.hint));
  for (const HeardHint& other : {removed, voted, runs}) EXPECT_FALSE(has_result(other.hint));
}

TEST(JobLine, of_a_part_that_failed_tells_how_the_job_goes_on_elsewhere) {
  ClusterSnapshot cluster = cluster_of(3);
  const auto hint = [](int number, JobPhase phase, std::uint64_t step) {
    HeardHint heard{"", node(number), {}};
    heard.hint.phase = phase;
    heard.hint.step = step;
    return heard;
  };
  const auto told = elsewhere_json(
      {hint(1, JobPhase::running, 7), hint(2, JobPhase::running, 8), hint(3, JobPhase::witness, 9)},
      cluster);
  EXPECT_EQ(told["phase"], "running");
  EXPECT_EQ(told["step"], 8);
  EXPECT_EQ(told["nodes"], (std::vector<std::string>{"a", "b"}));
  HeardHint full = hint(1, JobPhase::failed, 3), also = hint(2, JobPhase::failed, 3);
  full.hint.reason = "disk_full";
  EXPECT_EQ(
      failed_text({full, also, hint(3, JobPhase::running, 1)}, cluster),
      "node a has failed: disk_full (and 1 more); `gpunode job resume` there lets it take part "
      "again");
  EXPECT_EQ(failed_text({hint(3, JobPhase::running, 1)}, cluster), "");
  cluster.nodes[0].health = PeerHealth::dead;
  EXPECT_TRUE(elsewhere_json({hint(1, JobPhase::running, 7), hint(2, JobPhase::failed, 8)}, cluster)
                  .is_null());
}

TEST(JobSite, is_equal_for_processes_of_one_machine) {
  EXPECT_EQ(site_of("machine", {}, "one"), site_of("machine", {"rack=1"}, "one"));
  EXPECT_NE(site_of("machine", {}, "one"), site_of("machine", {}, "another"));
  EXPECT_EQ(site_of("machine", {}, ""), 0u) << "unknown is like no other";
}

TEST(JobSite, is_equal_for_equal_values_of_the_label) {
  EXPECT_EQ(site_of("rack", {"gpu", "rack=1"}, "one"), site_of("rack", {"rack=1"}, "another"));
  EXPECT_NE(site_of("rack", {"rack=1"}, "one"), site_of("rack", {"rack=2"}, "one"));
  EXPECT_NE(site_of("rack", {"rack=1"}, "one"), 0u);
  EXPECT_EQ(site_of("rack", {"racks=1", "rack"}, "one"), 0u);
}

}  // namespace
}  // namespace gpunode::jobs
