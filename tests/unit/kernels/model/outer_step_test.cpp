#include "kernels/model/outer_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gpunode::model {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

TEST(OuterStep, follows_the_mean_change_with_nesterovs_momentum) {
  std::vector<float> weights = {1, 2}, velocity = {0, 1};
  const OuterStep step{.scale = 0.25f, .rate = 0.5f, .momentum = 0.5f};
  ASSERT_TRUE(apply_outer_step(step, std::vector<float>{4, 8}, weights, velocity));
  // Means 1 and 2; velocities 1 and 0.5 + 2.
  EXPECT_THAT(velocity, ElementsAre(FloatEq(1), FloatEq(2.5f)));
  EXPECT_THAT(weights, ElementsAre(FloatEq(1 - 0.5f * 1.5f), FloatEq(2 - 0.5f * 3.25f)));
}

TEST(OuterStep, without_momentum_and_with_rate_one_takes_the_mean_of_the_members_weights) {
  std::vector<float> weights = {10}, velocity = {0};
  // Members ended at 9 and 7, with two slices each.
  ASSERT_TRUE(apply_outer_step({.scale = 0.25f, .rate = 1, .momentum = 0},
                               std::vector<float>{2 * 1 + 2 * 3}, weights, velocity));
  EXPECT_THAT(weights, ElementsAre(FloatEq(8)));
}

TEST(OuterStep, gives_buffers_the_mean_change_and_no_velocity) {
  std::vector<float> weights = {1, 2}, velocity = {0, 0};
  const OuterStep step{.scale = 0.25f, .rate = 0.5f, .momentum = 0.5f, .trained_count = 1};
  ASSERT_TRUE(apply_outer_step(step, std::vector<float>{4, 8}, weights, velocity));
  EXPECT_THAT(velocity, ElementsAre(FloatEq(1), FloatEq(0)));
  EXPECT_THAT(weights, ElementsAre(FloatEq(1 - 0.5f * 1.5f), FloatEq(2 - 2)));
}

TEST(OuterStep, leaves_everything_as_it_is_if_a_change_is_not_finite) {
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> weights = {1, 2}, velocity = {3, 4};
    EXPECT_FALSE(apply_outer_step({}, std::vector<float>{1, bad}, weights, velocity));
    EXPECT_THAT(weights, ElementsAre(1, 2));
    EXPECT_THAT(velocity, ElementsAre(3, 4));
  }
}

}  // namespace
}  // namespace gpunode::model
