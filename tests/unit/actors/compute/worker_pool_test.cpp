#include "actors/compute/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <new>
#include <stdexcept>

namespace gpunode::compute {
namespace {

TEST(WorkerPool, does_every_task_once_in_every_round_whatever_the_number_of_workers) {
  for (int workers : {1, 2, 5}) {
    WorkerPool pool(workers);
    EXPECT_EQ(pool.workers(), workers);
    for (std::size_t count : {0u, 1u, 3u, 100u}) {
      std::vector<std::atomic<int>> done(count);
      std::atomic<bool> lane_in_range{true};
      pool.run(count, [&](int worker, std::size_t i) {
        ++done[i];
        if (worker < 0 || worker >= workers) lane_in_range = false;
      });
      for (const auto& times : done) EXPECT_EQ(times, 1);
      EXPECT_TRUE(lane_in_range);
    }
  }
}

TEST(WorkerPool, runs_hundreds_of_short_rounds_without_losing_one) {
  WorkerPool pool(3);
  std::atomic<int> total{0};
  for (int round = 0; round < 2000; ++round) pool.run(3, [&](int, std::size_t) { ++total; });
  EXPECT_EQ(total, 6000);
}

TEST(WorkerPool, throws_on_what_a_task_threw_on_another_lane_and_is_usable_after_it) {
  WorkerPool pool(2);
  for (int throwing : {1, 0}) {
    std::barrier both(2);
    EXPECT_THROW(pool.run(2,
                          [&](int worker, std::size_t) {
                            both.arrive_and_wait();
                            if (worker == throwing) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    std::atomic<int> total{0};
    pool.run(3, [&](int, std::size_t) { ++total; });
    EXPECT_EQ(total, 3);
  }
}

TEST(WorkerPool, does_not_return_from_a_throwing_task_while_another_one_runs) {
  WorkerPool pool(2);
  std::barrier both(2);
  bool is_done = false;
  EXPECT_THROW(pool.run(2,
                        [&](int worker, std::size_t) {
                          both.arrive_and_wait();
                          if (worker == 0) throw std::bad_alloc();
                          for (int turn = 0; turn < 100; ++turn) std::this_thread::yield();
                          is_done = true;
                        }),
               std::bad_alloc);
  EXPECT_TRUE(is_done);
}

TEST(WorkerPool, begins_no_task_after_one_that_threw) {
  WorkerPool pool(1);
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
