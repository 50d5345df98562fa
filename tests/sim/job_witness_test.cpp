// Named situations with witnesses: spare nodes that vote and do not compute.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// A world without accidents: `members` that compute, and spare nodes that only vote.
WorldOptions with_spares(std::uint32_t members, std::uint32_t spares, std::uint64_t steps) {
  WorldOptions options;
  options.trace = std::getenv("GPUNODE_SIM_TRACE") != nullptr;
  options.model.tree = collective::Tree::of_slices(8);
  options.model.total_steps = steps;
  options.candidate_count = options.wanted_nodes = members;
  options.node_count = members + spares;
  options.witness_count = spares;
  options.crash_rate = options.cut_rate = options.reset_rate = options.pause_rate = 0;
  options.false_suspicion_rate = options.loss = options.repetition = 0;
  options.refused = 1;
  return options;
}

std::size_t voters(JobWorld& world, std::size_t node) {
  return world.core(node).view().acceptors.size();
}

TEST(JobWitness, an_even_number_of_members_takes_one_and_a_small_job_enough_to_outvote_it) {
  const struct {
    std::uint32_t members, spares;
    std::size_t voters;
  } cases[] = {{1, 1, 1}, {1, 2, 3}, {2, 1, 3}, {2, 3, 5}, {3, 2, 3}, {4, 2, 5}};
  for (const auto& one : cases) {
    WorldOptions options = with_spares(one.members, one.spares, 400);
    options.fault_time = 6s;
    JobWorld world(options);
    std::size_t seen = 0;
    world.at(5900ms, [&] { seen = voters(world, 0); });
    expect_good(world.run());
    EXPECT_EQ(seen, one.voters) << one.members << " members, " << one.spares << " spares";
  }
}

TEST(JobWitness, of_two_members_either_goes_on_when_the_other_dies) {
  for (std::size_t victim : {0, 1}) {
    WorldOptions options = with_spares(2, 1, 300);
    options.fault_time = 12s;
    JobWorld world(options);
    std::uint64_t before = 0, after = 0;
    world.at(5s, [&] {
      EXPECT_EQ(voters(world, 0), 3u);
      before = world.highest_commit();
      world.crash(victim);
    });
    world.at(11s, [&] { after = world.highest_commit(); });
    expect_good(world.run());
    EXPECT_GT(after, before + 10) << "victim " << victim;
  }
}

TEST(JobWitness, of_two_sides_of_a_cut_the_one_with_the_witness_goes_on_and_never_both) {
  WorldOptions options = with_spares(2, 1, 400);
  options.fault_time = 14s;
  JobWorld world(options);
  std::uint64_t alone = 0;
  world.at(5s, [&] {
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2)}) {  // the tie-breaker is cut off
      world.cut_link(a, b);
    }
  });
  world.at(9s, [&] { alone = world.core(0).committed(); });
  world.at(13s, [&] {
    EXPECT_EQ(world.core(0).committed(), alone);
    EXPECT_EQ(world.core(0).status(world.now()).phase, job::Phase::paused);
    EXPECT_GT(world.core(1).committed(), alone + 10);
  });
  expect_good(world.run());
}

TEST(JobWitness, an_even_split_of_four_goes_on_where_the_witness_is) {
  WorldOptions options = with_spares(4, 1, 400);
  options.fault_time = 14s;
  JobWorld world(options);
  std::uint64_t small_side = 0;
  world.at(5s, [&] {
    EXPECT_EQ(voters(world, 0), 5u);
    for (std::size_t a : {0, 1})
      for (std::size_t b : {2, 3, 4}) {
        world.cut_link(a, b);
      }
  });
  world.at(9s, [&] { small_side = world.core(0).committed(); });
  world.at(13s, [&] {
    EXPECT_EQ(world.core(0).committed(), small_side);
    EXPECT_EQ(world.core(1).committed(), small_side);
    EXPECT_GT(world.core(2).committed(), small_side + 10);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(world.core(2).view().members.size(), 4u);
}

// Kills a witness, and later the member whose vote breaks ties: how far the job comes.
std::uint64_t steps_after_witness_and_tie(const std::string& rule) {
  WorldOptions options = with_spares(2, 2, 600);
  options.broken_rule = rule;
  options.fault_time = 20s;
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  world.at(5s, [&] {
    for (std::size_t spare : {2, 3})
      if (world.alive(spare) && world.core(0).view().is_witness(world.id(spare)))
        return world.crash(spare);
    ADD_FAILURE() << "there was no witness";
  });
  world.at(14s, [&] {
    before = world.highest_commit();
    world.crash(0);
  });
  world.at(19s, [&] { after = world.highest_commit(); });
  expect_good(world.run());
  return after - before;
}

TEST(JobWitness,
     a_witness_that_dies_is_replaced_and_without_that_rule_the_next_death_stops_the_job) {
  EXPECT_GT(steps_after_witness_and_tie({}), 10u);
  const std::string rule = "keeps_dead_witnesses";
  EXPECT_LE(steps_after_witness_and_tie(rule), 1u) << "the step under way at most";
}

TEST(JobWitness, a_lone_member_that_dies_and_comes_back_goes_on_by_itself) {
  WorldOptions options = with_spares(1, 2, 300);
  options.checkpoint_every = 10;
  options.fault_time = 8s;
  JobWorld world(options);
  world.at(5s, [&] { world.crash(0); });
  world.at(6s, [&] { world.restart(0); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.rollbacks, 1u);
}

}  // namespace
}  // namespace gpunode::sim
