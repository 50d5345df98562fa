#include "actors/compute/lane_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <new>
#include <stdexcept>

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

TEST(LanePool, throws_on_what_a_task_threw_on_another_lane_and_is_usable_after_it) {
  LanePool pool(2);
  for (int throwing : {1, 0}) {
    std::barrier both(2);
    EXPECT_THROW(pool.run(2,
                          [&](int lane, std::size_t) {
                            both.arrive_and_wait();
                            if (lane == throwing) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    std::atomic<int> total{0};
    pool.run(3, [&](int, std::size_t) { ++total; });
    EXPECT_EQ(total, 3);
  }
}

TEST(LanePool, does_not_return_from_a_throwing_task_while_another_one_runs) {
  LanePool pool(2);
  std::barrier both(2);
  bool is_done = false;
  EXPECT_THROW(pool.run(2,
                        [&](int lane, std::size_t) {
                          both.arrive_and_wait();
                          if (lane == 0) throw std::bad_alloc();
                          for (int turn = 0; turn < 100; ++turn) std::this_thread::yield();
                          is_done = true;
                        }),
               std::bad_alloc);
  EXPECT_TRUE(is_done);
}

TEST(LanePool, begins_no_task_after_one_that_threw) {
  LanePool pool(1);
  int begun = 0;
  EXPECT_THROW(pool.run(5,
                        [&](int, std::size_t) {
                          ++begun;
                          throw std::runtime_error("as planned");
                        }),
               std::runtime_error);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace gpunode::compute
