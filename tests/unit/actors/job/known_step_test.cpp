#include "actors/job/known_step.hpp"

#include <gtest/gtest.h>

#include "actors/job/job_ledger.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

Time at(int seconds) {
  return Time(std::chrono::seconds(seconds));
}

void commit(JobLedger& ledger, std::uint64_t step, double loss) {
  job::Committed committed;
  committed.step = step;
  ledger.on_committed(at(static_cast<int>(step)), committed);
  ledger.on_applied(step, loss, {step, step});
}

JobHistory history_to(std::uint64_t last) {
  JobLedger ledger;
  for (std::uint64_t step = 1; step <= last; ++step) commit(ledger, step, 1.0);
  return ledger.history();
}

TEST(KnownStep, a_node_that_was_started_again_shows_what_it_knew_and_of_when_that_is) {
  JobLedger ledger;
  ledger.restore(history_to(704));
  const KnownStep known = ledger.known({}, JobPhase::stopped);
  EXPECT_EQ(known.step, 704u);
  EXPECT_EQ(known.loss, 1.0);
  EXPECT_EQ(known.at, at(704));
  EXPECT_EQ(known.how, "before this node was started again");
  commit(ledger, 705, 0.5);
  const KnownStep later = ledger.known({}, JobPhase::running);
  EXPECT_EQ(later.step, 705u);
  EXPECT_EQ(later.loss, 0.5);
  EXPECT_EQ(later.how, "");
}

TEST(KnownStep, where_steps_were_undone_all_figures_are_of_the_step_that_it_goes_on_from) {
  JobLedger ledger;
  ledger.restore(history_to(200));
  ledger.undo_to(150);
  const KnownStep known = ledger.known({}, JobPhase::syncing);
  EXPECT_EQ(known.step, 150u);
  EXPECT_EQ(known.at, at(150));
}

TEST(KnownStep, of_a_small_job_is_what_was_committed_while_its_lease_held) {
  JobLedger ledger;
  for (std::uint64_t step = 1; step <= 5; ++step)
    commit(ledger, step, 1.0 / static_cast<double>(step));
  job::JobStatus status;
  status.needs_lease = true;
  status.reported = 4;
  const KnownStep known = ledger.known(status, JobPhase::running);
  EXPECT_EQ(known.step, 4u);
  EXPECT_EQ(known.loss, 0.25) << "of that step";
}

TEST(KnownStep, of_a_finished_job_is_its_last_also_where_others_gave_the_result) {
  JobLedger ledger;
  ledger.on_result(at(9), 400, {}, {4, 4});
  job::JobStatus status;
  status.needs_lease = true;  // and has never held one: it has reported nothing
  EXPECT_EQ(ledger.known(status, JobPhase::finished).step, 400u);
  EXPECT_EQ(ledger.known(status, JobPhase::running).step, 0u);
}

TEST(KnownStep, a_witness_shows_the_newest_that_a_member_told_and_since_when) {
  ClusterSnapshot cluster;
  for (const auto& [number, name] : {std::pair(1, "a"), std::pair(2, "b")}) {
    NodeInfo& info = cluster.nodes.emplace_back();
    info.id = node(number);
    info.name = name;
  }
  const auto hint = [](int number, JobPhase phase, std::uint64_t step) {
    JobHint told;
    told.phase = phase;
    told.step = step;
    told.loss = 2.5;
    return HeardHint{"", node(number), told};
  };
  JobLedger ledger;
  ledger.on_hints(at(10), {hint(1, JobPhase::running, 480), hint(2, JobPhase::witness, 900)},
                  cluster);
  ledger.on_hints(at(20), {hint(1, JobPhase::running, 480)}, cluster);
  job::JobStatus status;
  status.reported = 16;  // of the view
  const KnownStep known = ledger.known(status, JobPhase::witness);
  EXPECT_EQ(known.step, 480u);
  EXPECT_EQ(known.loss, 2.5);
  EXPECT_EQ(known.at, at(10)) << "when it was news";
  EXPECT_EQ(known.how, "told by a");
  commit(ledger, 490, 1);
  EXPECT_EQ(ledger.known({}, JobPhase::running).step, 490u);
  const KnownStep cut = ledger.known({}, JobPhase::paused);
  EXPECT_EQ(cut.step, 490u);
  EXPECT_EQ(cut.how, "as far as is known here");
}

}  // namespace
}  // namespace gpunode::jobs
