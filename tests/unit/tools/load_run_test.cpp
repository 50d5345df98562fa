// What `bench infer` counts: times from when an ask was due, failures nowhere among them, arrivals by
// chance that a seed repeats.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "tools/bench/load_run.hpp"

namespace gpunode::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

TEST(LoadRun, ArrivalsAreOfTheirRateByChanceAndOfTheirSeed) {
  const auto due = arrivals(1000, 20, 7);
  EXPECT_EQ(due, arrivals(1000, 20, 7));
  EXPECT_NE(due, arrivals(1000, 20, 8));
  EXPECT_TRUE(std::ranges::is_sorted(due));
  EXPECT_LT(due.back(), 20);
  EXPECT_NEAR(static_cast<double>(due.size()), 20'000, 600);
  // Of gaps that are drawn exponentially, one in e is longer than the mean.
  std::size_t longer = 0;
  for (std::size_t i = 1; i < due.size(); ++i) longer += due[i] - due[i - 1] > 1e-3;
  EXPECT_NEAR(static_cast<double>(longer) / static_cast<double>(due.size()), 0.368, 0.02);
}

TEST(LoadRun, APercentileIsAValueThatWasSeen) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(values, 50), 3);
  EXPECT_EQ(percentile(values, 90), 5);
  EXPECT_EQ(percentile(values, 20), 1);
  EXPECT_EQ(percentile(values, 100), 5);
  EXPECT_EQ(percentile({}, 99), 0);
}

TEST(LoadRun, WhoWaitsForAnAskerHasWaitedSinceItWasDue) {
  std::vector<double> took;  // each ask itself
  const LoadResult result = run_load({.due = {0, 0, 0}, .askers = 1}, [&](std::uint64_t) {
    const auto begin = SteadyClock::now();
    while (SteadyClock::now() - begin < std::chrono::milliseconds(2)) {
    }
    took.push_back(std::chrono::duration<double>(SteadyClock::now() - begin).count());
    return Result<AskedOnce>(AskedOnce{.seconds = took.back(), .first_seconds = 0.001});
  });
  ASSERT_EQ(result.answered.size(), 3U);
  double before = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const AskedOnce& one = result.answered[i];
    EXPECT_GE(one.late_seconds, before);
    EXPECT_DOUBLE_EQ(one.seconds, took[i] + one.late_seconds);
    EXPECT_DOUBLE_EQ(one.first_seconds, 0.001 + one.late_seconds);
    before += took[i];
  }
}

TEST(LoadRun, FailuresAreCountedByKindAndHaveNoTime) {
  const LoadResult result =
      run_load({.due = std::vector<double>(9, 0.0), .askers = 3, .first_number = 100},
               [](std::uint64_t number) -> Result<AskedOnce> {
                 if (number < 102) return Error{ErrorCode::timeout, "late"};
                 if (number < 105) return Error{ErrorCode::resource_exhausted, "full"};
                 return AskedOnce{.seconds = 1, .tokens = 2};
               });
  EXPECT_EQ(result.failed,
            (std::map<std::string, std::uint64_t>{{"timeout", 2}, {"resource_exhausted", 3}}));
  EXPECT_EQ(result.answered.size(), 4U);
  EXPECT_EQ(result.asked(), 9U);
}

TEST(LoadRun, InTurnAtMostSoManyAskAtOnceUntilTheTimeIsOver) {
  std::atomic<int> at_once{0}, most{0};
  const LoadResult result = run_load({.seconds = 0.05, .askers = 2}, [&](std::uint64_t) {
    const int now = ++at_once;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    --at_once;
    return Result<AskedOnce>(AskedOnce{.seconds = 1e-6});
  });
  EXPECT_LE(most, 2);
  EXPECT_GT(result.answered.size(), 2U);
  EXPECT_GT(result.answered_per_second(), 0);
}

}  // namespace
}  // namespace gpunode::bench
