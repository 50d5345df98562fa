// Polite leave in named situations: nobody waits for a failure detector, and no state is left
// behind.
#include <algorithm>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

TEST(JobLeave, whoever_leaves_the_rest_goes_on_without_a_pause) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (std::size_t leaver = 0; leaver < 3; ++leaver) {
      WorldOptions options = calm_world(3, 80);
      options.seed = seed;
      JobWorld world(options);
      Time left{};
      world.at(1s + Duration(seed * 7ms), [&] { world.leave(leaver); });
      for (int i = 0; i < 300; ++i)
        world.at(1s + i * 5ms, [&] {
          if (!world.alive(leaver) && left == Time{}) left = world.now();
        });
      const WorldResult result = world.run();
      expect_good(result);
      EXPECT_EQ(result.leaves, 1u);
      EXPECT_LT(left - Time{}, 1800ms) << "seed " << seed << " leaver " << leaver;
      // A slow disk costs a vote 0.4 s; suspicion would take longer than this.
      EXPECT_LT(longest_gap(world, 1s), 1200ms) << "seed " << seed << " leaver " << leaver;
    }
}

// Of two, the one that leaves has the tie and decides the view: without its last word the other
// could never go on.
TEST(JobLeave, who_leaves_stays_until_the_others_know_the_view_without_it) {
  int stuck[2] = {0, 0};
  for (const bool at_once : {false, true})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      WorldOptions options = calm_world(2, 80);
      options.seed = seed;
      options.heal_time = 20s;
      if (at_once) options.broken_rule = "leaves_at_once";
      JobWorld world(options);
      world.at(1s, [&] { world.leave(0); });
      const WorldResult result = world.run();
      if (!at_once) expect_good(result);
      stuck[at_once] += result.finished ? 0 : 1;
    }
  EXPECT_EQ(stuck[false], 0);
  EXPECT_GT(stuck[true], 0) << "the rule is not needed";
}

TEST(JobLeave, a_deadline_shorter_than_two_steps_changes_the_view_at_once) {
  WorldOptions options = calm_world(3, 10);
  options.compute_low = 8s;
  options.compute_high = 10s;
  options.heal_time = 500s;
  JobWorld world(options);
  bool gone = false;
  world.at(40s, [&] { world.leave(2, 5s); });
  world.at(41s, [&] { gone = !world.alive(2); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(gone);
}

TEST(JobLeave, the_last_holder_makes_its_state_durable_and_the_job_goes_on_from_there) {
  WorldOptions options = calm_world(1, 60);
  JobWorld world(options);
  std::uint64_t before = 0;
  world.at(1s, [&] {
    before = world.core(0).committed();
    world.leave(0);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.leaves, 1u);
  EXPECT_EQ(result.rollbacks, 1u);
  EXPECT_GT(before, 5u);
  EXPECT_EQ(result.commits, 60u) << "no step was lost and none was made twice";
}

TEST(JobLeave, the_last_holder_waits_for_the_learner_that_is_on_its_way) {
  WorldOptions options = calm_world(2, 300);
  options.candidate_count = 1;
  options.model.element_count = 1000;
  options.model.ballast_bytes = 1'000'000;
  options.last_node_rate = 400'000;  // two and a half seconds for the state
  options.late_count = 1;
  options.fault_time = 1500ms;  // then the second node starts
  JobWorld world(options);
  std::size_t members_at_leave = 0;
  bool gone_early = true;
  world.at(2s, [&] {
    members_at_leave = world.core(0).view().members.size();
    world.leave(0);
  });
  world.at(3s, [&] { gone_early = !world.alive(0); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(members_at_leave, 1u);
  EXPECT_FALSE(gone_early);
  EXPECT_EQ(result.leaves, 1u);
  EXPECT_EQ(result.rollbacks, 0u) << "the state went from hand to hand";
}

// Of five nodes one computes; two others vote, as spare nodes.
WorldOptions one_member_and_spares() {
  WorldOptions options = calm_world(5, 500);
  options.candidate_count = options.wanted_nodes = 1;
  options.witness_count = 4;
  options.heal_time = 100s;
  return options;
}

TEST(JobLeave, a_witness_that_leaves_is_replaced_before_it_goes_and_not_asked_again) {
  JobWorld world(one_member_and_spares());
  std::vector<NodeId> voters, after;
  std::size_t leaver = 0;
  world.at(5s, [&] {
    voters = world.core(0).view().acceptors;
    while (leaver < 5 && world.id(leaver) != voters.back()) ++leaver;
    world.leave(leaver);
  });
  for (Duration when = 5s; when < 9s; when += 20ms)
    world.at(when, [&] {
      if (world.alive(leaver) || !after.empty()) return;
      after = world.core(0).view().acceptors;
    });
  const WorldResult result = world.run();
  expect_good(result);
  ASSERT_EQ(voters.size(), 3u);
  EXPECT_EQ(result.leaves, 1u);
  EXPECT_EQ(after.size(), 3u) << "another spare node votes in its place when it goes";
  EXPECT_EQ(std::count(after.begin(), after.end(), voters.back()), 0);
  EXPECT_LT(longest_gap(world, 1s), 1200ms);
}

TEST(JobLeave, when_all_witnesses_leave_the_member_goes_on_alone) {
  WorldOptions options = one_member_and_spares();
  options.node_count = 3;
  options.witness_count = 2;
  JobWorld world(options);
  world.at(5s, [&] {
    EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
    world.leave(1);
    world.leave(2);
  });
  bool gone = false;
  world.at(6500ms, [&] { gone = world.core(0).view().acceptors.size() == 1; });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(gone);
  EXPECT_EQ(result.leaves, 2u);
  EXPECT_LT(longest_gap(world, 1s), 1200ms);
}

// It left with a checkpoint; then the machines of all others are lost. It waits, says for whom, and
// a person recovers the job from it.
TEST(JobLeave, who_left_with_a_checkpoint_recovers_the_job_when_all_others_are_lost) {
  WorldOptions options = calm_world(3, 400);
  options.checkpoint_every = 20;
  options.fault_time = 15s;
  options.heal_time = 100s;
  JobWorld world(options);
  std::uint64_t left_with = 0, after = 0;
  world.at(4s, [&] { world.leave(2); });
  world.at(8s, [&] {
    EXPECT_FALSE(world.alive(2));
    for (const std::size_t other : {0, 1}) world.lose_machine(other);
    world.restart(2);
    left_with = world.core(2).checkpoint().step;
  });
  world.at(14s, [&] {
    const job::JobStatus told = world.core(2).status(world.clock(2));
    EXPECT_EQ(told.phase, job::Phase::paused);
    EXPECT_EQ(told.reason, "nobody that had a part in the job answers");
    EXPECT_EQ(told.waiting_for.size(), 2u);
    world.recover_job(2);
  });
  world.at(20s, [&] { after = world.core(2).committed(); });
  expect_good(world.run());
  EXPECT_GT(left_with, 0u);
  EXPECT_GT(after, left_with);
}

TEST(JobLeave, when_all_leave_one_stays_until_the_state_is_durable) {
  WorldOptions options = calm_world(3, 80);
  JobWorld world(options);
  world.at(1s, [&] {
    for (std::size_t node = 0; node < 3; ++node) world.leave(node);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.leaves, 3u);
  EXPECT_LT(result.commits, 3 * 80u + 10);
}

}  // namespace
}  // namespace gpunode::sim
