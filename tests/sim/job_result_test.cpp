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
        options.mutations.ends_without_result = without;
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

TEST(JobResult, whom_nobody_gives_the_result_ends_without_it_after_a_minute) {
  JobWorld world(with_a_slow_learner());
  world.at(6s, [&] {
    for (std::size_t node = 0; node < 3; ++node) world.crash(node);
  });
  const WorldResult result = world.run();
  EXPECT_TRUE(result.finished);
  EXPECT_GT(result.ended - Time{}, 60s);
  EXPECT_LT(result.ended - Time{}, 75s);
}

}  // namespace
}  // namespace gpunode::sim
