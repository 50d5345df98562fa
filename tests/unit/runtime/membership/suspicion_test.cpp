#include "runtime/membership/suspicion.hpp"

#include <gtest/gtest.h>

namespace gpunode::membership {
namespace {

using namespace std::chrono_literals;

TEST(Suspicion, TheMinimumIsTheFloorInASmallHouseAndGrowsWithTheLogarithm) {
  const SwimConfig config;
  EXPECT_EQ(suspicion_minimum(config, 3, 0), 1200ms);
  EXPECT_EQ(suspicion_minimum(config, 10, 0), 1200ms);
  EXPECT_EQ(suspicion_minimum(config, 100, 0), 2400ms);
}

TEST(Suspicion, ASlowMachineWaitsLongerUpToTheCap) {
  const SwimConfig config;
  EXPECT_EQ(suspicion_minimum(config, 3, 2), 3600ms);
  EXPECT_EQ(suspicion_minimum(config, 3, 1000), 1200ms * 9);
}

TEST(Suspicion, TheWaitFallsAsObserversAgree) {
  const SwimConfig config;
  EXPECT_EQ(suspicion_time(config, 8, 0, 1, 2), 4800ms);
  EXPECT_EQ(suspicion_time(config, 8, 0, 2, 2), 1200ms);
  EXPECT_EQ(suspicion_time(config, 2, 0, 1, 1), 1200ms);
  EXPECT_GT(suspicion_time(config, 8, 0, 1, 3), suspicion_time(config, 8, 0, 2, 3));
  EXPECT_GT(suspicion_time(config, 8, 0, 2, 3), suspicion_time(config, 8, 0, 3, 3));
}

}  // namespace
}  // namespace gpunode::membership
