// Named situations in the simulated world, one test each: what must happen, and how fast.
#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

TEST(JobScenario, a_quiet_hour_of_slow_steps_sees_one_view) {
  WorldOptions options = calm_world(3, 60);
  options.compute_low = 10s;
  options.compute_high = 50s;
  options.heal_time = 5000s;
  const WorldResult result = JobWorld(options).run();
  expect_good(result);
  EXPECT_EQ(result.views, 1u);
}

TEST(JobScenario, one_node_alone_runs_to_the_end) {
  const WorldResult result = JobWorld(calm_world(1, 50)).run();
  expect_good(result);
  EXPECT_EQ(result.views, 1u);
}

TEST(JobScenario, after_a_kill_the_next_commit_comes_within_a_second) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (std::size_t victim = 0; victim < 3; ++victim) {
      WorldOptions options = calm_world(3, 60);
      options.seed = seed;
      options.fault_time = 60s;  // the victim stays away
      options.heal_time = 60s;
      JobWorld world(options);
      world.at(1s + Duration(seed * 7ms), [&] { world.crash(victim); });
      const WorldResult result = world.run();
      expect_good(result);
      EXPECT_LT(longest_gap(world, 1s), 1s) << "seed " << seed << " victim " << victim;
    }
}

TEST(JobScenario, a_proposer_that_dies_with_its_ballot_is_not_waited_for) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    WorldOptions options = calm_world(5, 60);
    options.seed = seed;
    options.fault_time = 60s;
    options.heal_time = 60s;
    options.planned = {{Moment::on_accept, Strike::crash, 0}};
    JobWorld world(options);
    world.at(1s, [&] {
      world.crash(4);
      world.strike_at_next(Moment::on_accept);
    });
    const WorldResult result = world.run();
    expect_good(result);
    EXPECT_TRUE(result.planned.front().fired);
    // The others give the lost ballot no time; the value that it may have got through counts.
    EXPECT_LT(longest_gap(world, 1s), 1500ms) << "seed " << seed;
  }
}

TEST(JobScenario, a_power_loss_costs_less_than_three_seconds) {
  WorldOptions options = calm_world(3, 60);
  options.refused = 0;
  options.fault_time = 60s;
  options.heal_time = 60s;
  JobWorld world(options);
  world.at(1s, [&] { world.crash(1); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_LT(longest_gap(world, 1s), 3s);
}

// Nobody is silent, and yet no step can come through.
TEST(JobScenario, two_members_whose_data_does_not_come_through_are_not_kept_together) {
  WorldOptions options = calm_world(3, 900);
  options.compute_low = 200ms;
  options.compute_high = 300ms;
  options.fault_time = 100s;
  options.heal_time = 1000s;
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  std::size_t members = 0;
  world.at(1s, [&] {
    before = world.highest_commit();
    world.swallow_bulk(0, 1);
  });
  world.at(60s, [&] {
    after = world.highest_commit();
    members = world.core(2).view().members.size();
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(after, before + 50);
  EXPECT_EQ(members, 2u);
  EXPECT_LT(longest_gap(world, 1s), 35s);
  EXPECT_EQ(world.core(2).view().members.size(), 3u) << "it comes back once the data comes through";
}

TEST(JobScenario, a_fourth_node_is_let_in_and_computes) {
  WorldOptions options = calm_world(4, 100);
  options.candidate_count = 3;
  options.fault_time = 1s;
  JobWorld world(options);
  world.at(0ms, [&] { world.crash(3); });  // it starts after the others
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(world.computed_slices().contains(world.id(3)));
  EXPECT_GT(result.followed, 0u);
  EXPECT_EQ(world.core(0).view().acceptors.size(), 4u);
}

TEST(JobScenario, a_killed_member_comes_back_as_a_learner_and_votes_again) {
  WorldOptions options = calm_world(3, 100);
  options.fault_time = 2s;
  JobWorld world(options);
  world.at(1s, [&] { world.crash(2); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.learners, 1u);
  EXPECT_EQ(result.rollbacks, 0u);
  EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
}

TEST(JobScenario, a_minority_pauses_and_rejoins) {
  WorldOptions options = calm_world(5, 300);
  options.fault_time = 8s;
  JobWorld world(options);
  world.at(1s, [&] {
    for (std::size_t a : {3, 4})
      for (std::size_t b : {0, 1, 2}) {
        world.cut_link(a, b);
      }
  });
  std::uint64_t small_side = 0;
  bool paused = false;
  world.at(5s, [&] { small_side = world.core(3).committed(); });
  world.at(7900ms, [&] {
    EXPECT_EQ(world.core(3).committed(), small_side);
    EXPECT_EQ(world.core(4).committed(), small_side);
    EXPECT_GT(world.core(0).committed(), small_side + 10);
    paused = world.core(3).status(world.now()).phase == job::Phase::paused;
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(paused);
  EXPECT_EQ(world.core(0).view().members.size(), 5u);
}

// Two of five members cannot reach each other, everyone else reaches all: views made meanwhile.
std::uint64_t views_around_a_broken_link(const std::string& rule) {
  std::uint64_t views = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    WorldOptions options = calm_world(5, 500);
    options.seed = seed;
    options.broken_rule = rule;
    options.fault_time = 15s;
    JobWorld world(options);
    world.at(1s, [&] { world.cut_link(1, 2); });
    world.at(7s, [&] { views -= world.core(0).view().view_id; });
    world.at(14s, [&] { views += world.core(0).view().view_id; });
    expect_good(world.run());
  }
  return views;
}

TEST(JobScenario, members_that_cannot_reach_each_other_are_not_named_together) {
  const std::uint64_t with_rule = views_around_a_broken_link({});
  const std::string rule = "no_clique_rule";
  const std::uint64_t without = views_around_a_broken_link(rule);
  EXPECT_LT(3 * with_rule, without) << with_rule << " views with the rule";
}

// Everybody is alive for the detector, which asks through the third: only silence tells.
void expect_that_a_cut_link_costs_a_member(std::vector<std::pair<std::size_t, std::size_t>> ways) {
  WorldOptions options = calm_world(3, 800);
  options.swim_detects = true;
  options.fault_time = 30s;
  JobWorld world(options);
  world.at(1s, [&] {
    for (const auto& [from, to] : ways) world.set_cut(from, to, true);
  });
  std::uint64_t reached = 0;
  world.at(8s, [&] { reached = world.highest_commit(); });
  world.at(12s, [&] {
    EXPECT_GT(world.highest_commit(), reached + 20);
    EXPECT_EQ(world.core(2).view().members.size(), 2u) << "one of the two is left out";
    EXPECT_TRUE(world.core(2).view().rank_of(world.id(2)));
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.crashes, 0u);
  EXPECT_LT(longest_gap(world, 1s), 8s);
  EXPECT_EQ(world.core(2).view().members.size(), 3u) << "it came back after the link healed";
}

TEST(JobScenario, two_members_that_cannot_reach_each_other_cost_one_of_them) {
  expect_that_a_cut_link_costs_a_member({{0, 1}, {1, 0}});
}

TEST(JobScenario, a_member_that_is_not_heard_by_one_other_costs_one_of_them) {
  expect_that_a_cut_link_costs_a_member({{0, 1}});
}

// The one that doubts moves first, so only it has waited in vain when the others are asked.
TEST(JobScenario, who_alone_doubts_a_cut_link_is_left_out_and_not_named_again) {
  WorldOptions options = calm_world(4, 1500);
  options.swim_detects = true;
  options.fault_time = 30s;
  JobWorld world(options);
  world.at(1s, [&] { world.cut_link(1, 3); });
  for (Duration when = 1s; when < 12s; when += 100ms)
    world.at(when, [&] {
      job::Actions none;
      world.core(3).on_peer(world.now(), world.id(1), PeerHealth::suspect, none);
    });
  std::uint64_t reached = 0;
  world.at(3s, [&] { reached = world.highest_commit(); });
  world.at(12s, [&] {
    EXPECT_GT(world.highest_commit(), reached + 50);
    EXPECT_LT(world.core(0).view().view_id, 12u) << "it comes and goes";
  });
  expect_good(world.run());
  EXPECT_LT(longest_gap(world, 1s), 8s);
}

TEST(JobScenario, a_stopped_process_is_left_behind_and_rejoins) {
  WorldOptions options = calm_world(3, 150);
  options.fault_time = 7s;
  JobWorld world(options);
  world.at(1s, [&] { world.pause(1, 5s); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.crashes, 0u);
  EXPECT_GE(result.learners, 1u);
  EXPECT_LT(longest_gap(world, 1s), 3s);
}

TEST(JobScenario, of_two_nodes_only_the_one_with_the_tie_goes_on) {
  WorldOptions options = calm_world(2, 150);
  options.fault_time = 8s;
  JobWorld world(options);
  world.at(1s, [&] { world.cut_link(0, 1); });
  std::uint64_t with_tie = 0, without = 0;
  world.at(5s, [&] {
    with_tie = world.core(0).committed();
    without = world.core(1).committed();
  });
  world.at(7s, [&] {
    EXPECT_GT(world.core(0).committed(), with_tie);
    EXPECT_EQ(world.core(1).committed(), without);
  });
  expect_good(world.run());
}

TEST(JobScenario, a_job_that_may_goes_on_in_both_halves_and_one_yields_when_they_meet) {
  WorldOptions options = calm_world(4, 2000);
  options.goes_on_alone = true;
  options.fault_time = 30s;
  JobWorld world(options);
  world.at(1s, [&] {
    for (const auto& [from, to] : {std::pair{0, 2}, {0, 3}, {1, 2}, {1, 3}}) {
      world.cut_link(from, to);
    }
  });
  world.at(25s, [&] {
    EXPECT_EQ(world.core(0).view().members.size(), 2u);
    EXPECT_EQ(world.core(3).view().members.size(), 2u);
    EXPECT_NE(world.core(0).view().generation(), world.core(3).view().generation());
    EXPECT_GT(world.core(3).committed(), 100u) << "the half without the tie works, too";
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.generations, 1u) << "one split, by the lowest rank of the half that waited";
}

TEST(JobScenario, a_result_that_arrives_wrong_is_summed_again_by_another_owner) {
  std::uint64_t disagreements = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions options = calm_world(3, 60);
    options.seed = seed;
    options.fault_time = 4s;
    options.corruption = 0.02;
    const WorldResult result = JobWorld(options).run();
    expect_good(result);
    disagreements += result.disagreements;
  }
  EXPECT_GT(disagreements, 10u);
}

TEST(JobScenario, a_node_that_leaves_is_left_out_without_a_pause) {
  WorldOptions options = calm_world(3, 80);
  JobWorld world(options);
  world.at(1s, [&] { world.leave(2); });
  world.at(1500ms, [&] {
    EXPECT_EQ(world.core(0).view().members.size(), 2u);
    EXPECT_FALSE(world.alive(2)) << "it has not left yet";
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_LT(longest_gap(world, 1s), 500ms);
}

TEST(JobScenario, a_crash_of_all_goes_back_and_still_ends_with_the_same_bits) {
  WorldOptions options = calm_world(3, 60);
  options.fault_time = 3s;
  JobWorld world(options);
  world.at(1s, [&] {
    for (std::size_t node = 0; node < 3; ++node) world.crash(node);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.rollbacks, 1u);
}

TEST(JobScenario, a_crash_of_all_goes_back_to_the_newest_checkpoint_only) {
  WorldOptions options = calm_world(3, 60);
  options.fault_time = 3s;
  options.checkpoint_every = 5;
  JobWorld world(options);
  std::uint64_t before = 0;
  world.at(1s, [&] {
    before = world.highest_commit();
    for (std::size_t node = 0; node < 3; ++node) world.crash(node);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.rollbacks, 1u);
  EXPECT_GT(before, 10u);
  EXPECT_LT(result.commits, 3 * 60 + 3 * 10) << "more than the steps since the checkpoint again";
}

TEST(JobScenario, a_large_vector_in_many_chunks_survives_a_kill) {
  WorldOptions options = calm_world(3, 40);
  options.model.element_count = 3 * 16384 + 5;
  options.fault_time = 2s;
  JobWorld world(options);
  world.at(700ms, [&] { world.crash(1); });
  expect_good(world.run());
}

}  // namespace
}  // namespace gpunode::sim
