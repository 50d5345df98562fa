// Steps that go from device to device: the results are those of messages, whatever breaks when.
#include <gtest/gtest.h>

#include "tests/sim/job_swarm.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// Nothing fails but what the test wants.
WorldOptions quiet(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.device_link = true;
  options.group_break = 0;
  options.crash_rate = options.cut_rate = options.reset_rate = options.pause_rate = 0;
  options.false_suspicion_rate = options.loss = options.repetition = 0;
  options.candidate_count = options.wanted_nodes = options.node_count = 3;
  options.model.total_steps = 80;
  return options;
}

std::string told(std::uint64_t seed, const WorldResult& result) {
  std::string text = "seed " + std::to_string(seed) + ":";
  for (const std::string& failure : result.failures) text += "\n  " + failure;
  return text;
}

TEST(JobGroup, carries_the_steps_once_all_members_have_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const WorldResult result = JobWorld(quiet(seed)).run();
    EXPECT_TRUE(result.failures.empty() && result.finished) << told(seed, result);
    EXPECT_GT(result.carried, 30u) << "by three members, seed " << seed;
    EXPECT_EQ(result.broken_groups, 0u);
  }
}

TEST(JobGroup, that_breaks_costs_a_step_the_detour_and_no_view) {
  std::uint64_t broken = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    WorldOptions options = quiet(seed);
    options.group_break = 0.01;
    const WorldResult result = JobWorld(options).run();
    EXPECT_TRUE(result.failures.empty() && result.finished) << told(seed, result);
    EXPECT_EQ(result.disagreements, 0u);
    EXPECT_LE(result.views, 3u) << seed;
    EXPECT_LT(result.ended, Time{} + 20s) << "it waited for a timeout, seed " << seed;
    broken += result.broken_groups > 0 ? 1 : 0;
  }
  EXPECT_GT(broken, 40u);
}

// Nobody hears bytes of the others meanwhile.
TEST(JobGroup, carries_steps_that_take_longer_than_a_silence_is_borne) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    WorldOptions options = quiet(seed);
    options.model.total_steps = 12;
    options.compute_low = 6s;
    options.compute_high = 9s;
    options.heal_time = 400s;
    const WorldResult result = JobWorld(options).run();
    EXPECT_TRUE(result.failures.empty() && result.finished) << told(seed, result);
    EXPECT_GT(result.carried, 15u) << "by three members, seed " << seed;
    EXPECT_LE(result.views, 3u) << seed;
  }
}

TEST(JobGroup, ends_with_the_view_when_a_member_dies) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    JobWorld world(quiet(seed));
    world.at(Duration(1s) + Duration(20ms) * static_cast<int>(seed), [&] { world.crash(2); });
    const WorldResult result = world.run();
    EXPECT_TRUE(result.failures.empty() && result.finished) << told(seed, result);
  }
}

TEST(JobGroup, of_any_world_never_shows_in_the_result) {
  std::uint64_t carried = 0, broken = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    WorldOptions options = world_of(seed);
    options.device_link = true;
    options.group_break = 0.03;
    const WorldResult result = JobWorld(options).run();
    EXPECT_TRUE(result.failures.empty()) << told(seed, result);
    carried += result.carried;
    broken += result.broken_groups;
  }
  EXPECT_GT(carried, 2000u);
  EXPECT_GT(broken, 100u);
}

}  // namespace
}  // namespace gpunode::sim
