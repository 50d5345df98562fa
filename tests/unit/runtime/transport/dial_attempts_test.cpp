// Which address is dialled next, and after which pause.
#include "runtime/transport/detail/dial_attempts.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gpunode::transport::detail {
namespace {

using std::chrono::milliseconds;

TEST(DialAttempts, TheyGoRoundTheAddressesAndThePauseDoublesEachRound) {
  DialAttempts attempts;
  attempts.hurry(milliseconds(10));
  std::vector<std::size_t> dialled;
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) {
    dialled.push_back(attempts.next_of(2));
    attempts.on_failed(false, 2);
    pauses.push_back(attempts.next_pause(2, milliseconds(30)));
  }
  EXPECT_EQ(dialled, (std::vector<std::size_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(pauses, (std::vector<Duration>{milliseconds(10), milliseconds(10), milliseconds(20),
                                           milliseconds(20), milliseconds(30), milliseconds(30)}));
  attempts.on_opened(milliseconds(10));
  EXPECT_EQ(attempts.next_pause(2, milliseconds(30)), milliseconds(10));
}

TEST(DialAttempts, APeerHasRefusedOnceAllItsAddressesHaveInARow) {
  DialAttempts attempts;
  EXPECT_FALSE(attempts.on_failed(true, 2));
  EXPECT_FALSE(attempts.on_failed(false, 2));  // late: it may be a firewall
  EXPECT_FALSE(attempts.on_failed(true, 2));
  EXPECT_TRUE(attempts.on_failed(true, 2));
  EXPECT_FALSE(attempts.on_failed(true, 2));  // counted anew
  EXPECT_FALSE(attempts.on_failed(false, 0));
}

}  // namespace
}  // namespace gpunode::transport::detail
