// Named situations of small jobs: one or two members, and spare nodes that vote, hold copies of the
// checkpoints, and take the job up when the members are gone; never before their lease is over.
#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// A world without accidents: `members` that compute, and spare nodes that could as well.
WorldOptions small_job(std::uint32_t members, std::uint32_t spares, std::uint64_t steps) {
  WorldOptions options = calm_world(members, steps);
  options.node_count = members + spares;
  options.checkpoint_every = 10;
  options.clock_drift = 0.02;
  options.fault_time = 30s;
  return options;
}

job::JobStatus status(JobWorld& world, std::size_t node) {
  return world.core(node).status(world.clock(node));
}

TEST(JobLease, a_lone_member_that_dies_is_replaced_by_a_spare_node_from_the_durable_checkpoint) {
  WorldOptions options = small_job(1, 2, 300);
  JobWorld world(options);
  std::uint64_t durable = 0, after = 0;
  world.at(6s, [&] {
    EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
    durable = status(world, 0).durable.name.step;
    EXPECT_GE(status(world, 0).holders, 2u);
    world.crash(0);
  });
  world.at(14s, [&] { after = world.core(1).committed() + world.core(2).committed(); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(durable, 0u);
  EXPECT_GT(after, durable + 10);
  EXPECT_EQ(result.rollbacks, 1u);
}

TEST(JobLease, a_lone_member_that_leaves_waits_until_its_witnesses_have_its_last_checkpoint) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    WorldOptions options = small_job(1, 2, 300);
    options.seed = seed;
    JobWorld world(options);
    std::uint64_t before = 0;
    world.at(6s, [&] {
      before = world.core(0).committed();
      world.leave(0);
    });
    const WorldResult result = world.run();
    expect_good(result);
    EXPECT_GT(before, 20u);
    EXPECT_EQ(result.commits, 300u) << "no step was lost and none was made twice";
  }
}

TEST(JobLease, a_lone_member_that_dies_before_its_first_checkpoint_is_replaced_too) {
  WorldOptions options = small_job(1, 2, 100);
  options.checkpoint_every = 0;
  JobWorld world(options);
  std::uint64_t after = 0;
  world.at(4s, [&] { world.crash(0); });
  world.at(12s, [&] { after = world.core(1).committed() + world.core(2).committed(); });
  expect_good(world.run());
  EXPECT_GT(after, 10u);
}

TEST(JobLease, two_of_two_members_die_one_after_the_other_and_the_spare_nodes_go_on) {
  for (const Duration between : {100ms, 5000ms}) {
    WorldOptions options = small_job(2, 3, 300);
    JobWorld world(options);
    std::uint64_t before = 0, after = 0;
    world.at(6s, [&] {
      before = status(world, 0).durable.name.step;
      world.crash(0);
    });
    world.at(6s + between, [&] { world.crash(1); });
    world.at(20s, [&] {
      for (std::size_t node : {2, 3, 4}) after = std::max(after, world.core(node).committed());
    });
    expect_good(world.run());
    EXPECT_GT(before, 0u);
    EXPECT_GT(after, before + 10);
  }
}

// The lone member is cut off from everybody; returns its own and the others' newest step while so.
std::pair<std::uint64_t, std::uint64_t> while_cut_off(const std::string& rule,
                                                      WorldResult& result) {
  WorldOptions options = small_job(1, 2, 600);
  options.broken_rule = rule;
  JobWorld world(options);
  std::uint64_t own = 0, others = 0;
  world.at(6s, [&] {
    world.cut_link(0, 1);
    world.cut_link(0, 2);
  });
  world.at(12s, [&] {
    own = world.core(0).committed();
    others = std::max(world.core(1).committed(), world.core(2).committed());
  });
  world.at(20s, [&] {
    if (world.core(0).view().has_member({world.id(0), 1})) {
      EXPECT_EQ(world.core(0).committed(), own);
    }
  });
  world.at(25s, [&] {
    world.set_cut(0, 1, false);
    world.set_cut(1, 0, false);
    world.set_cut(0, 2, false);
    world.set_cut(2, 0, false);
  });
  result = world.run();
  return {own, others};
}

TEST(JobLease, a_lone_member_that_is_cut_off_stops_before_the_others_go_on) {
  WorldResult result;
  const auto [own, others] = while_cut_off({}, result);
  expect_good(result);
  EXPECT_GT(own, 0u);
  EXPECT_GT(others, 0u);
}

TEST(JobLease, a_member_that_outlives_its_lease_is_caught) {
  const std::string rule = "outlives_lease";
  WorldResult result;
  while_cut_off(rule, result);
  ASSERT_FALSE(result.failures.empty());
  EXPECT_TRUE(result.failures.front().starts_with("18")) << result.failures.front();
}

// Held for longer than its lease, it wakes up and must not take the others for asleep.
TEST(JobLease, a_lone_member_that_is_held_longer_than_its_lease_yields_when_it_wakes) {
  WorldOptions options = small_job(1, 2, 400);
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  world.at(6s, [&] {
    before = world.core(0).committed();
    world.pause(0, 8s);
  });
  world.at(13s, [&] { after = world.core(1).committed() + world.core(2).committed(); });
  world.at(15s, [&] { EXPECT_FALSE(world.core(0).view().rank_of(world.id(0))); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(after, 0u);
  EXPECT_GT(before, 0u);
  EXPECT_EQ(result.rollbacks, 1u);
}

// A lone member with two witnesses, and what happens to them.
WorldResult lone_member(const std::string& rule, const std::function<void(JobWorld&)>& happens) {
  WorldOptions options = small_job(1, 2, 400);
  options.broken_rule = rule;
  JobWorld world(options);
  happens(world);
  return world.run();
}

// It ends well with every rule, and not without the one: `rule` is the number of what then breaks.
void expect_needed(const std::string& broken, const char* rule,
                   const std::function<void(JobWorld&)>& happens) {
  expect_good(lone_member({}, happens));
  const WorldResult result = lone_member(broken, happens);
  ASSERT_FALSE(result.failures.empty());
  EXPECT_TRUE(result.failures.front().starts_with(rule)) << result.failures.front();
}

void cut_off_member(JobWorld& world) {
  for (const std::size_t witness : {1, 2}) world.cut_link(0, witness);
}

void tell_that_member_is_gone(JobWorld& world) {
  for (const std::size_t witness : {1, 2}) world.tell_link(witness, 0, LinkState::refused);
}

// Both witnesses die and come back at once, hear nothing of the member and are told it is gone.
TEST(JobLease, restarted_witnesses_wait_for_the_leases_that_they_may_have_granted) {
  expect_needed("forgets_leases", "18", [](JobWorld& world) {
    world.at(6s, [&] {
      cut_off_member(world);
      for (std::size_t node : {1, 2}) world.crash(node);
      for (std::size_t node : {1, 2}) world.restart(node);
    });
    world.at(6100ms, [&] { tell_that_member_is_gone(world); });
  });
}

// The witnesses are told that the member is gone while it is merely cut off.
TEST(JobLease, a_rollback_waits_for_the_lease_and_one_that_does_not_is_caught) {
  expect_needed("ignores_leases", "18", [](JobWorld& world) {
    world.at(6s, [&] {
      cut_off_member(world);
      tell_that_member_is_gone(world);
    });
  });
}

// Only one witness hears the member; the other takes it for gone, and asks for votes.
void cut_off_from_one_witness(JobWorld& world) {
  world.at(6s, [&] {
    world.cut_link(0, 2);
    world.tell_link(2, 0, LinkState::refused);
  });
}

TEST(JobLease, who_has_promised_renews_no_lease_and_one_that_does_is_caught) {
  EXPECT_EQ(lone_member({}, cut_off_from_one_witness).rollbacks, 0u)
      << "the one that hears it asks it, too";
  expect_needed("grants_after_promise", "5", cut_off_from_one_witness);
}

TEST(JobLease, without_a_quorum_for_its_lease_a_lone_member_says_whom_it_waits_for) {
  WorldOptions options = small_job(1, 2, 600);
  JobWorld world(options);
  world.at(6s, [&] {
    for (std::size_t node : {1, 2}) world.crash(node);
  });
  world.at(14s, [&] {
    const job::JobStatus told = status(world, 0);
    EXPECT_EQ(told.phase, job::Phase::paused);
    EXPECT_EQ(told.waiting_for.size(), 2u);
    EXPECT_FALSE(told.reason.empty());
  });
  world.at(15s, [&] { world.restart(1); });
  std::uint64_t reached = 0;
  world.at(18s, [&] { reached = world.core(0).committed(); });
  world.at(22s, [&] { EXPECT_GT(world.core(0).committed(), reached + 10); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(result.rollbacks, 0u);
}

}  // namespace
}  // namespace gpunode::sim
