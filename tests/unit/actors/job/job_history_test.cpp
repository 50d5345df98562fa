#include "actors/job/job_history.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

Time at(std::uint64_t seconds) {
  return Time(std::chrono::seconds(seconds));
}

// Step n is made at second n; its state is n.
void run(JobHistory& history, std::uint64_t first, std::uint64_t last, SliceCounts computed) {
  for (std::uint64_t step = first; step <= last; ++step)
    history.add({.time = at(step),
                 .step = step,
                 .view_id = 1,
                 .state = {step, step},
                 .loss = 1.0 / static_cast<double>(step),
                 .computed = std::make_shared<const SliceCounts>(computed)});
}

TEST(JobHistory, steps_that_are_undone_count_for_nothing) {
  JobHistory history;
  run(history, 1, 10, {{node(1), 3}, {node(2), 1}});
  run(history, 11, 15, {{node(1), 2}, {node(3), 2}});
  history.count_skipped(12);
  EXPECT_EQ(history.skipped(), 1u);
  history.undo_to(10);
  EXPECT_EQ(history.slices(), (SliceCounts{{node(1), 30}, {node(2), 10}}));
  EXPECT_EQ(history.skipped(), 0u);
  EXPECT_EQ(history.newest().step, 10u);
  EXPECT_EQ(*history.newest().loss, 0.1);
  run(history, 11, 12, {{node(2), 4}});
  EXPECT_EQ(history.slices(), (SliceCounts{{node(1), 30}, {node(2), 18}}));
  EXPECT_EQ(history.first(), 1u);
}

TEST(JobHistory, counts_all_steps_and_keeps_the_newest_commits) {
  JobHistory history;
  const std::uint64_t steps = JobHistory::kCommitsKept + 100;
  run(history, 1, steps, {{node(1), 2}});
  EXPECT_EQ(history.commits().size(), JobHistory::kCommitsKept);
  EXPECT_EQ(history.slices().at(node(1)), 2 * steps);
  history.undo_to(100);
  EXPECT_EQ(history.slices().at(node(1)), 200u);
  EXPECT_EQ(history.newest().state, (Digest{100, 100})) << "of the step before those that are kept";
  history.undo_to(60);
  EXPECT_TRUE(history.slices().empty()) << "how many of the first 60 it were is not known any more";
  EXPECT_EQ(history.first(), 61u);
  EXPECT_EQ(history.newest().step, 60u);
}

TEST(JobHistory, a_gap_ends_what_is_known_until_a_member_tells_what_was_before) {
  JobHistory member, joiner;
  run(member, 1, 60, {{node(1), 3}, {node(2), 1}});
  run(member, 61, 80, {{node(1), 2}, {node(3), 2}});
  run(joiner, 61, 90, {{node(1), 2}, {node(3), 2}});
  EXPECT_EQ(joiner.first(), 61u);
  EXPECT_EQ(joiner.slices(), (SliceCounts{{node(1), 60}, {node(3), 60}}));
  ASSERT_TRUE(joiner.take(member));
  EXPECT_EQ(joiner.first(), 1u);
  EXPECT_EQ(joiner.slices(), (SliceCounts{{node(1), 240}, {node(2), 60}, {node(3), 60}}));
  EXPECT_EQ(joiner.commits().size(), 90u);
  EXPECT_EQ(joiner.commit_of(60)->state, (Digest{60, 60}));
  EXPECT_EQ(joiner.newest().step, 90u);
  EXPECT_FALSE(joiner.take(member)) << "nothing is missing any more";
  joiner.undo_to(50);
  EXPECT_EQ(joiner.slices(), (SliceCounts{{node(1), 150}, {node(2), 50}}));
}

TEST(JobHistory, takes_nothing_of_who_knows_no_more_or_of_another_course) {
  JobHistory behind, same, joiner;
  run(behind, 1, 30, {{node(1), 1}});
  run(joiner, 61, 90, {{node(1), 1}});
  run(same, 61, 90, {{node(1), 1}});
  EXPECT_FALSE(joiner.take(behind));
  EXPECT_FALSE(joiner.take(same));
  JobHistory result, other;
  result.jump_to({.step = 60, .state = {7, 7}});
  run(other, 1, 60, {{node(1), 1}});
  EXPECT_FALSE(result.take(other)) << "the state after step 60 is another one";
  EXPECT_EQ(result.first(), 61u);
}

TEST(JobHistory, of_who_was_away_the_events_of_meanwhile_are_another_members) {
  JobHistory own, other;
  own.add_event({at(1), "began", {}});
  own.add_event({at(2), "killed after this", {}});
  own.add_event({at(9), "is back", {}});
  for (std::uint64_t second = 1; second <= 12; ++second)
    other.add_event({at(second), "event " + std::to_string(second), node(2)});
  own.take_events(other, at(2), at(9));
  ASSERT_EQ(own.events().size(), 9u);
  EXPECT_EQ(own.events()[1].text, "killed after this");
  EXPECT_EQ(own.events()[2].text, "event 3");
  EXPECT_EQ(own.events()[2].by, node(2));
  EXPECT_EQ(own.events()[7].text, "event 8");
  EXPECT_EQ(own.events().back().text, "is back");
}

}  // namespace
}  // namespace gpunode::jobs
