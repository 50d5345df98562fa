#include "runtime/base/broken_rule.hpp"

#include <gtest/gtest.h>

#include "tests/support/broken_rules.hpp"

namespace gpunode {
namespace {

TEST(BrokenRule, every_rule_holds_unless_a_test_breaks_it_and_again_afterwards) {
  EXPECT_FALSE(broken("one"));
  {
    const testing::BreakRule rule("one");
    EXPECT_TRUE(broken("one"));
    EXPECT_FALSE(broken("another"));
    EXPECT_EQ(rule.asked(), 1u) << "what was asked for another rule does not count";
  }
  EXPECT_FALSE(broken("one"));
}

}  // namespace
}  // namespace gpunode
