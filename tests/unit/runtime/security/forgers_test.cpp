#include "runtime/security/forgers.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::security {
namespace {

TEST(Forgers, who_was_caught_is_not_heard_for_a_while_and_the_others_are) {
  Forgers forgers;
  const Time caught = Time{} + std::chrono::hours(1);
  forgers.caught(node(1), caught);
  EXPECT_FALSE(forgers.hears(node(1), caught + Forgers::kDeafFor - Duration(1)));
  EXPECT_TRUE(forgers.hears(node(1), caught + Forgers::kDeafFor));
  EXPECT_TRUE(forgers.hears(node(2), caught));
}

}  // namespace
}  // namespace gpunode::security
