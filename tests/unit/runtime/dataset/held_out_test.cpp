#include "runtime/dataset/held_out.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpunode::dataset {
namespace {

std::int64_t drawn(std::uint64_t count, double fraction) {
  return std::ranges::count(draw_held_out(count, fraction), true);
}

TEST(HeldOut, the_share_that_was_asked_for_is_drawn) {
  EXPECT_EQ(drawn(1000, 0.1), 100);
  EXPECT_EQ(drawn(1000, 0.0), 0);
  EXPECT_EQ(drawn(9, 0.5), 5);
}

TEST(HeldOut, at_least_one_part_and_never_all) {
  EXPECT_EQ(drawn(2, 0.001), 1);
  EXPECT_EQ(drawn(2, 0.999), 1);
  EXPECT_EQ(drawn(1, 0.5), 0);
}

TEST(HeldOut, is_spread_over_all_parts) {
  const std::vector<bool> held = draw_held_out(10'000, 0.2);
  for (int tenth = 0; tenth < 10; ++tenth) {
    const auto begin = held.begin() + tenth * 1000;
    EXPECT_NEAR(static_cast<double>(std::count(begin, begin + 1000, true)), 200.0, 60.0);
  }
}

}  // namespace
}  // namespace gpunode::dataset
