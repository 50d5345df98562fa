#include "kernels/tensor/exact_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gpunode::tensor {
namespace {

TEST(ExactMath, AgreesWithTheCLibraryToAFewUnitsInTheLastPlace) {
  for (double x = -30; x <= 30; x += 0.0371) {
    EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 2e-15) << x;
    EXPECT_NEAR(exact_cos(x), std::cos(x), 1e-15) << x;
    EXPECT_NEAR(exact_sin(x), std::sin(x), 1e-15) << x;
  }
  for (double x = 1e-300; x < 1e300; x *= 3.77)
    EXPECT_NEAR(exact_log(x), std::log(x), 4e-16 * std::abs(std::log(x))) << x;
  for (double x = 0.5; x < 2; x += 0.00137) EXPECT_NEAR(exact_log(x), std::log(x), 3e-16) << x;
}

TEST(ExactMath, HandlesTheEndsOfItsRange) {
  EXPECT_EQ(exact_log(0.0), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(exact_log(-1.0)));
  EXPECT_EQ(exact_log(HUGE_VAL), HUGE_VAL);
  EXPECT_EQ(exact_exp(1e9), exact_exp(700));
  EXPECT_GT(exact_exp(-1e9), 0.0);
  EXPECT_TRUE(std::isnan(exact_exp(std::nan(""))));
}

TEST(ExactMath, HasTheseBitsOnEveryMachine) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(exact_exp(1.0)), 0x4005bf0a8b145768u);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(exact_log(2.0)), 0x3fe62e42fefa39efu);
}

TEST(ExactMath, TellsChancesByScores) {
  constexpr float kTop = 1.75f, kNever = std::numeric_limits<float>::infinity();
  std::vector<float> scores = {kNever, -kNever, std::nanf(""), kTop};
  for (float x = -85; x <= 1.7f; x += 0.0173f) scores.push_back(x);
  EXPECT_EQ(largest_finite(scores), kTop);
  for (const float scale : {1.0f, 0.3f}) {
    std::vector<float> chances(scores.size(), 7);
    exact_chances(scores, kTop, scale, 0, chances);
    EXPECT_EQ(chances[0], 0);
    EXPECT_LT(chances[1], 1e-37f);
    EXPECT_LT(chances[2], 1e-37f);
    EXPECT_EQ(chances[3], 1);
    for (std::size_t i = 4; i < scores.size(); ++i) {
      const double meant = std::exp(static_cast<double>((scores[i] - kTop) * scale));
      EXPECT_NEAR(static_cast<double>(chances[i]) / meant, 1, 5e-7) << scores[i];
      float alone[1];
      exact_chances(std::span(&scores[i], 1), kTop, scale, 0, alone);
      EXPECT_EQ(alone[0], chances[i]) << "whatever lies beside it";
    }
  }
  float one[3];
  exact_chances(std::vector<float>{1, 0, -1}, 1, 1, 0.25f, one);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(one[1]), 0x3ebc5ab2u);
  EXPECT_EQ(one[2], 0) << "less than the least";
}

TEST(ExactMath, FindsTheLargestFiniteValue) {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  EXPECT_EQ(largest_finite({}), -kNever);
  EXPECT_EQ(largest_finite(std::vector<float>{kNever, -kNever, std::nanf("")}), -kNever);
  for (std::size_t at = 0; at < 9; ++at) {
    std::vector<float> values(9, -3);
    values[at] = -2;
    values[(at + 1) % 9] = std::nanf("");
    values[(at + 2) % 9] = kNever;
    EXPECT_EQ(largest_finite(values), -2);
  }
}

TEST(ExactMath, SumsManyFloats) {
  std::vector<float> values(1003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.25f;
  EXPECT_EQ(exact_sum(values), 1003 * 1002 / 2 + 1003 * 0.25);
  EXPECT_EQ(exact_sum({}), 0);
}

TEST(ExactMath, RaisesToWholePowers) {
  EXPECT_EQ(exact_power(0.5, 10), 0x1p-10);
  EXPECT_EQ(exact_power(3.0, 0), 1.0);
  EXPECT_NEAR(exact_power(0.9, 2000), std::pow(0.9, 2000), 1e-104);
}

}  // namespace
}  // namespace gpunode::tensor
