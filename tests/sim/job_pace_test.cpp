// Members of different speed in the simulated world: the slice plan follows what they tell of their
// steps, the same at all, without a view change; the sums stay the same bits.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

WorldOptions world_of_speeds(std::vector<Duration> slice_times, std::uint64_t steps) {
  WorldOptions options;
  options.trace = std::getenv("GPUNODE_SIM_TRACE") != nullptr;
  options.model.tree = collective::Tree::of_slices(32);
  options.model.total_steps = steps;
  options.node_count = options.candidate_count = options.wanted_nodes =
      static_cast<std::uint32_t>(slice_times.size());
  options.slice_times = std::move(slice_times);
  options.crash_rate = options.cut_rate = options.reset_rate = options.pause_rate = 0;
  options.false_suspicion_rate = options.loss = options.repetition = 0;
  options.refused = 1;
  options.fault_time = 0ms;
  options.heal_time = 2000s;
  return options;
}

// Slices a second from step `from` on, against what the members would do without one another.
double share_of_speed(const JobWorld& world, const std::vector<Duration>& slice_times,
                      std::uint64_t from) {
  const auto& commits = world.commit_times();
  const auto last = commits.rbegin();
  const double seconds = std::chrono::duration<double>(last->second - commits.at(from)).count();
  double ideal = 0;
  for (Duration slice : slice_times) ideal += 1 / std::chrono::duration<double>(slice).count();
  return static_cast<double>(last->first - from) * 32 / seconds / ideal;
}

TEST(JobPace, a_half_speed_member_costs_less_than_a_tenth_of_the_sum_of_speeds) {
  for (const auto& speeds : {std::vector<Duration>{40ms, 80ms},
                             {40ms, 40ms, 80ms},
                             {80ms, 40ms, 40ms},
                             {40ms, 120ms, 60ms}}) {
    JobWorld world(world_of_speeds(speeds, 60));
    const WorldResult result = world.run();
    expect_good(result);
    EXPECT_EQ(result.views, 1u) << "a plan changes inside a view";
    EXPECT_GT(result.plans, 1u);
    EXPECT_GT(share_of_speed(world, speeds, 20), 0.9);
  }
}

TEST(JobPace, noise_does_not_move_slices) {
  const std::vector<Duration> speeds{40ms, 40ms, 40ms};
  const WorldResult result = JobWorld(world_of_speeds(speeds, 200)).run();
  expect_good(result);
  EXPECT_LE(result.plans, 2u);
}

TEST(JobPace, who_takes_part_later_learns_the_paces_with_the_view) {
  const std::vector<Duration> speeds{40ms, 80ms, 40ms, 80ms};
  WorldOptions options = world_of_speeds(speeds, 80);
  options.candidate_count = 3;
  options.heal_time = 2000s;
  options.fault_time = 30s;
  JobWorld world(options);
  world.at(20s, [&] { world.crash(1); });
  world.at(25s, [&] { world.restart(1); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(result.learners, 0u);
}

}  // namespace
}  // namespace gpunode::sim
