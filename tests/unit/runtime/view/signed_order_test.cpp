#include "runtime/view/signed_order.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::view {
namespace {

SignedOrder numbered(std::int64_t number) {
  return order_of({1, 1}, node(1), OrderKind::stop, number);
}

TEST(SignedOrder, of_two_the_later_counts) {
  EXPECT_TRUE(is_later(numbered(2), numbered(1)));
  EXPECT_FALSE(is_later(numbered(1), numbered(2)));
  EXPECT_TRUE(is_later(numbered(1), std::nullopt));
}

TEST(SignedOrder, what_was_carried_out_is_not_later_than_itself) {
  EXPECT_FALSE(is_later(numbered(1), numbered(1)));
}

// Whoever compares them.
TEST(SignedOrder, of_two_that_were_given_at_once_one_counts) {
  const SignedOrder one = order_of({1, 1}, node(1), OrderKind::stop, 5);
  const SignedOrder other = order_of({1, 1}, node(2), OrderKind::resume, 5);
  EXPECT_NE(is_later(one, other), is_later(other, one));
  const SignedOrder again = order_of({1, 1}, node(1), OrderKind::resume, 5);
  EXPECT_NE(is_later(one, again), is_later(again, one));
}

}  // namespace
}  // namespace gpunode::view
