#include "actors/compute/lane_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace gpunode::compute {
namespace {

TEST(LanePool, does_every_task_once_in_every_round_whatever_the_number_of_lanes) {
  for (int lanes : {1, 2, 5}) {
    LanePool pool(lanes);
    EXPECT_EQ(pool.lanes(), lanes);
    for (std::size_t count : {0u, 1u, 3u, 100u}) {
      std::vector<std::atomic<int>> done(count);
      std::atomic<bool> lane_in_range{true};
      pool.run(count, [&](int lane, std::size_t i) {
        ++done[i];
        if (lane < 0 || lane >= lanes) lane_in_range = false;
      });
      for (const auto& times : done) EXPECT_EQ(times, 1);
      EXPECT_TRUE(lane_in_range);
    }
  }
}

TEST(LanePool, runs_hundreds_of_short_rounds_without_losing_one) {
  LanePool pool(3);
  std::atomic<int> total{0};
  for (int round = 0; round < 2000; ++round) pool.run(3, [&](int, std::size_t) { ++total; });
  EXPECT_EQ(total, 6000);
}

}  // namespace
}  // namespace gpunode::compute
