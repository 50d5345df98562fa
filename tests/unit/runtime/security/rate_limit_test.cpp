// The token bucket an address.
#include "runtime/security/rate_limit.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

TEST(RateLimit, allows_a_burst_and_then_a_rate) {
  RateLimit limit({3, 1, 100});
  Time now{};
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(limit.allow("a", now));
  EXPECT_FALSE(limit.allow("a", now));
  EXPECT_TRUE(limit.allow("b", now)) << "another address has its own bucket";
  EXPECT_FALSE(limit.allow("a", now + 999ms));
  EXPECT_TRUE(limit.allow("a", now + 1s));
  EXPECT_FALSE(limit.allow("a", now + 1s));
  int allowed = 0;
  for (int round = 0; round < 10; ++round) allowed += limit.allow("a", now + 1h);
  EXPECT_EQ(allowed, 3) << "the bucket holds no more than a burst";
}

TEST(RateLimit, what_was_well_used_comes_back_up_to_a_burst) {
  RateLimit limit({3, 1, 100});
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(limit.allow("a", Time{}));
    EXPECT_TRUE(limit.allow("a", Time{}));
    limit.give_back("a", 2);
  }
  limit.give_back("a", 100);
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(limit.allow("a", Time{}));
  EXPECT_FALSE(limit.allow("a", Time{}));
  limit.give_back("unknown", 5);
  EXPECT_EQ(limit.size(), 1u);
}

TEST(RateLimit, gains_nothing_from_a_clock_that_steps_back) {
  RateLimit limit({1, 1, 100});
  EXPECT_TRUE(limit.allow("a", Time{10s}));
  EXPECT_FALSE(limit.allow("a", Time{5s}));
  EXPECT_FALSE(limit.allow("a", Time{10s}));
}

TEST(RateLimit, remembers_a_bounded_number_of_addresses) {
  RateLimit limit({2, 1, 50});
  for (int number = 0; number < 50; ++number) {
    EXPECT_TRUE(limit.allow(std::to_string(number), Time{}));
  }
  for (const char* honest : {"x", "y", "z"}) {
    EXPECT_TRUE(limit.allow(honest, Time{})) << "a full table keeps nobody out";
    EXPECT_TRUE(limit.allow(honest, Time{}));
    EXPECT_FALSE(limit.allow(honest, Time{}));
  }
  EXPECT_LE(limit.size(), 50u);
  EXPECT_TRUE(limit.allow("late", Time{1h}));
  EXPECT_LE(limit.size(), 2u) << "full buckets are forgotten";
}

}  // namespace
}  // namespace gpunode::security
