// Votes on disks that lose, cut short and tear what a crash interrupts: nobody forgets what it has
// answered, and whoever breaks a rule of storage is caught.
#include <gtest/gtest.h>

#include "tests/sim/job_world.hpp"

namespace gpunode::sim {
namespace {

// Crashes at random, and some just when votes are on their way to the disk.
WorldOptions world_of(std::uint64_t seed) {
  Rng rng(mix(seed, 77));
  WorldOptions options;
  options.seed = seed;
  options.model.tree = collective::Tree::of_slices(4);
  options.model.total_steps = 40;
  options.candidate_count = 3 + static_cast<std::uint32_t>(rng.below(3));
  options.node_count = options.wanted_nodes = options.candidate_count;
  options.fault_time = std::chrono::seconds(6);
  options.crash_rate = 0.2;
  options.over_the_wire = false;
  for (int fault = 0; fault < 5; ++fault)
    options.planned.push_back(
        {Moment::before_durable, Strike::crash, 1 + static_cast<std::uint32_t>(rng.below(30))});
  return options;
}

std::string told(std::uint64_t seed, const WorldResult& result) {
  std::string text = "seed " + std::to_string(seed) + ":";
  for (const std::string& failure : result.failures) text += "\n  " + failure;
  return text;
}

WorldResult run_all(std::uint64_t seeds, double names_first) {
  WorldResult sum;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    WorldOptions options = world_of(seed);
    options.names_first = names_first;
    const WorldResult result = JobWorld(options).run();
    EXPECT_TRUE(result.failures.empty()) << told(seed, result);
    sum.lost_votes += result.lost_votes;
    sum.cut_votes += result.cut_votes;
    sum.torn_votes += result.torn_votes;
    sum.views += result.views;
  }
  return sum;
}

TEST(JobSimDisk, votes_that_a_crash_loses_or_cuts_short_were_never_answered_and_none_is_torn) {
  const WorldResult sum = run_all(150, 0);
  EXPECT_GT(sum.cut_votes, 100u);
  EXPECT_GT(sum.lost_votes, 0u);
  EXPECT_EQ(sum.torn_votes, 0u);
}

// A disk that lies puts a name before the contents. The checksum tells; its node stays out until a
// person has put back a copy, as "I do not know" is not "I never voted".
TEST(JobSimDisk, a_torn_vote_file_is_seen_and_its_node_does_not_vote) {
  const WorldResult sum = run_all(150, 0.7);
  EXPECT_GT(sum.torn_votes, 50u);
  EXPECT_GT(sum.views, 150u);
}

// How many seeds it takes until storage that breaks a rule is caught; 0 if none of them does.
std::uint64_t seeds_until_caught(VoteDisk::Mutations mutations, double names_first,
                                 bool only_effects, std::string* how) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    WorldOptions options = world_of(seed);
    options.names_first = names_first;
    options.disk_mutations = mutations;
    options.only_effects = only_effects;
    const WorldResult result = JobWorld(options).run();
    if (result.failures.empty()) continue;
    *how = result.failures.front();
    return seed;
  }
  return 0;
}

TEST(JobSimDisk, votes_answered_before_they_are_synced_and_torn_ones_taken_for_none_are_caught) {
  struct Case {
    const char* name;
    VoteDisk::Mutations mutations;
    double names_first;
    bool only_effects;
  };
  const Case cases[] = {
      {"votes are not synced", {.no_sync = true}, 0, false},
      {"torn votes count as none", {.torn_is_none = true}, 0.7, false},
      {"neither synced nor checked, by harm", {.no_sync = true, .torn_is_none = true}, 0.7, true},
  };
  for (const Case& one : cases) {
    std::string how;
    const std::uint64_t seed =
        seeds_until_caught(one.mutations, one.names_first, one.only_effects, &how);
    std::printf("%-36s seed %4llu  %s\n", one.name, static_cast<unsigned long long>(seed),
                how.c_str());
    EXPECT_GT(seed, 0u) << one.name << " was not caught";
  }
}

}  // namespace
}  // namespace gpunode::sim
