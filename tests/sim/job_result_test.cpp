// The job's end for who was no member at it, in named situations: it had crashed, was cut off, or
// was still on its way in. It is through only with the result.
#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// Three members, one of which dies early; it is started again long after the job's end.
WorldOptions with_one_away(std::uint64_t seed) {
  WorldOptions options = calm_world(3, 60);
  options.seed = seed;
  options.fault_time = 20s;
  return options;
}

TEST(JobResult, who_is_away_at_the_end_comes_back_to_the_result) {
  for (const bool without : {false, true})
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
      for (std::size_t away = 0; away < 3; ++away) {
        WorldOptions options = with_one_away(seed);
        if (without) options.broken_rule = "ends_without_result";
        JobWorld world(options);
        world.at(300ms, [&] { world.crash(away); });
        std::uint64_t others = 0;
        world.at(19s, [&] { others = world.core((away + 1) % 3).committed(); });
        const WorldResult result = world.run();
        EXPECT_EQ(others, 60u) << "the job was over";
        EXPECT_TRUE(result.finished);
        ASSERT_EQ(result.failures.size(), without ? 1u : 0u) << "seed " << seed;
        EXPECT_LT(result.ended - Time{}, 25s);
      }
}

TEST(JobResult, who_is_cut_off_at_the_end_gets_the_result_once_it_is_reached) {
  WorldOptions options = with_one_away(1);
  JobWorld world(options);
  world.at(300ms, [&] {
    world.cut_link(0, 2);
    world.cut_link(1, 2);
  });
  expect_good(world.run());
  EXPECT_EQ(world.core(2).committed(), 60u);
}

// A fourth node whose state comes over a slow link, while the others finish.
WorldOptions with_a_slow_learner() {
  WorldOptions options = calm_world(4, 60);
  options.candidate_count = 3;
  options.late_count = 1;
  options.fault_time = 1s;
  options.model.element_count = 1000;
  options.model.ballast_bytes = 2'000'000;
  options.last_node_rate = 100'000;  // from three members: seven seconds
  return options;
}

TEST(JobResult, who_is_still_on_its_way_at_the_end_goes_on_to_the_result) {
  JobWorld world(with_a_slow_learner());
  std::uint64_t others = 0;
  bool early = true;
  world.at(6s, [&] {
    others = world.core(0).committed();
    early = world.core(3).committed() == 60;
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(others, 60u);
  EXPECT_FALSE(early);
  EXPECT_EQ(world.core(3).committed(), 60u);
}

// A lone member, and two spare nodes that vote, hold its checkpoints and fetch the result. When it
// is gone, nobody can compute: who is through has no trainer, and a fourth node no checkpoint.
TEST(JobResult, who_comes_when_the_last_member_is_gone_gets_the_result_of_those_who_have_it) {
  WorldOptions options = calm_world(1, 60);
  options.node_count = 4;
  options.late_count = 1;
  options.checkpoint_every = 10;
  options.fault_time = 20s;
  JobWorld world(options);
  world.at(6s, [&] {
    for (const std::size_t node : {1, 2}) EXPECT_EQ(world.core(node).committed(), 60u);
    world.crash(0);
  });
  world.at(7s, [&] { world.restart(3); });
  world.at(12s, [&] { EXPECT_EQ(world.core(3).committed(), 60u); });
  expect_good(world.run());
}

// The lone member forgets, promises to take the job back, and has the result again before it is
// decided: so it is named to compute, with a node that lacks everything.
TEST(JobResult, who_is_named_with_a_member_that_is_through_gets_its_result) {
  std::uint64_t rollbacks = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    WorldOptions options = calm_world(1, 60);
    options.seed = seed;
    options.node_count = 3;
    options.wanted_nodes = 2;
    options.late_count = 2;
    options.checkpoint_every = 7;
    options.model.element_count = 1000;
    options.last_node_rate = 10'000;  // the result takes half a second
    options.fault_time = 20s;
    options.loses_outcomes = true;
    JobWorld world(options);
    world.at(4s, [&] { world.restart(1); });
    world.at(6s, [&] {
      EXPECT_EQ(world.core(1).committed(), 60u);
      world.crash(0);
    });
    world.at(7s, [&] {
      world.restart(0);
      world.restart(2);
    });
    world.at(19s, [&] {
      EXPECT_EQ(world.core(0).committed(), 60u) << "seed " << seed;
      EXPECT_EQ(world.core(2).committed(), 60u) << "seed " << seed;
    });
    const WorldResult result = world.run();
    expect_good(result);
    rollbacks += result.rollbacks;
  }
  EXPECT_GT(rollbacks, 0u);
}

// The lone member has finished and is cut off; the others, who had its result, are restarted: they
// have it on their disks, so the job is not done again.
TEST(JobResult, who_restarts_after_the_end_has_the_result_on_its_disk_and_gives_it) {
  WorldOptions options = calm_world(1, 60);
  options.node_count = 4;
  options.late_count = 1;
  options.checkpoint_every = 10;
  options.model.element_count = 1000;
  options.last_node_rate = 10'000;  // the result takes half a second
  options.fault_time = 40s;
  JobWorld world(options);
  const auto cut = [&](bool cut) {
    for (const std::size_t other : {1, 2}) {
      world.set_cut(0, other, cut);
      world.set_cut(other, 0, cut);
    }
  };
  world.at(3s, [&] {
    EXPECT_EQ(world.core(0).committed(), 60u);
    cut(true);
    for (const std::size_t node : {1, 2}) world.crash(node);
  });
  world.at(3100ms, [&] {
    for (const std::size_t node : {1, 2}) world.restart(node);
  });
  world.at(10s, [&] {
    cut(false);
    world.restart(3);
  });
  world.at(10200ms, [&] {
    for (const std::size_t node : {1, 2}) EXPECT_EQ(world.core(node).committed(), 60u);
    EXPECT_EQ(world.core(3).committed(), 0u);
    for (const std::size_t node : {1, 2}) world.crash(node);
  });
  world.at(25s, [&] { EXPECT_EQ(world.core(3).committed(), 60u); });
  expect_good(world.run());
}

// The result is damaged on the disk of the only node that votes, and intact with one that does not,
// which comes back a little later: the last steps are not made again.
WorldResult with_a_damaged_result(const std::string& broken) {
  WorldOptions options = calm_world(1, 60);
  options.node_count = 2;
  options.late_count = 1;
  options.checkpoint_every = 10;
  options.checkpoints_kept = 3;
  options.fault_time = 20s;
  options.loses_outcomes = true;
  options.broken_rule = broken;
  JobWorld world(options);
  world.at(4s, [&] { world.restart(1); });
  world.at(6s, [&] {
    EXPECT_EQ(world.core(1).committed(), 60u);
    world.crash(1);
    world.crash(0);
    world.spoil_checkpoint(0);
    world.restart(0);
  });
  world.at(8s, [&] { world.restart(1); });
  return world.run();
}

TEST(JobResult, a_voter_whose_result_is_damaged_waits_a_moment_for_another_copy) {
  expect_good(with_a_damaged_result(""));
  const WorldResult without = with_a_damaged_result("undoes_at_once");
  ASSERT_FALSE(without.failures.empty());
  EXPECT_TRUE(without.failures.front().starts_with("19: view 2 goes back to step 50"));
}

// It is lost with them only for as long as they are away.
TEST(JobResult, whom_nobody_gives_the_result_waits_for_who_has_it) {
  WorldOptions options = with_a_slow_learner();
  options.checkpoint_every = 20;
  JobWorld world(options);
  world.at(6s, [&] {
    for (std::size_t node = 0; node < 3; ++node) world.crash(node);
  });
  world.at(80s, [&] {
    EXPECT_LT(world.core(3).committed(), 60u);
    for (const std::size_t node : {0, 1, 2}) world.restart(node);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(world.core(3).committed(), 60u);
}

}  // namespace
}  // namespace gpunode::sim
