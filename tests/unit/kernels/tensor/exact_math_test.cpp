#include "kernels/tensor/exact_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

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

TEST(ExactMath, RaisesToWholePowers) {
  EXPECT_EQ(exact_power(0.5, 10), 0x1p-10);
  EXPECT_EQ(exact_power(3.0, 0), 1.0);
  EXPECT_NEAR(exact_power(0.9, 2000), std::pow(0.9, 2000), 1e-104);
}

}  // namespace
}  // namespace gpunode::tensor
