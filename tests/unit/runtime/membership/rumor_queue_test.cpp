#include "runtime/membership/rumor_queue.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {
namespace {

Rumor rumor_about(int index) {
  return {PeerHealth::suspect, test_id(index), {1, 0}, {test_id(9)}, {}, std::nullopt};
}

TEST(RumorQueue, TheLeastToldComesFirst) {
  RumorQueue queue;
  queue.put(rumor_about(1));
  EXPECT_EQ(queue.take(1, 10'000, 3).at(0).subject, test_id(1));
  queue.put(rumor_about(2));
  EXPECT_EQ(queue.take(1, 10'000, 3).at(0).subject, test_id(2));
}

TEST(RumorQueue, ARumourIsToldABoundedNumberOfTimes) {
  RumorQueue queue;
  queue.put(rumor_about(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.take(8, 10'000, 3).size(), 1u);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.take(8, 10'000, 3).empty());
}

TEST(RumorQueue, ANewerRumourReplacesTheOlderOfItsSubject) {
  RumorQueue queue;
  queue.put(rumor_about(1));
  Rumor newer = rumor_about(1);
  newer.state = PeerHealth::dead;
  queue.put(newer);
  const auto taken = queue.take(8, 10'000, 3);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].state, PeerHealth::dead);
}

TEST(RumorQueue, WhatDoesNotFitWaits) {
  RumorQueue queue;
  for (int i = 1; i <= 5; ++i) queue.put(rumor_about(i));
  const std::size_t size = wire_estimate(rumor_about(1));
  EXPECT_EQ(queue.take(100, 2 * size, 3).size(), 2u);
  EXPECT_EQ(queue.take(100, 2 * size, 3).size(), 2u);
  EXPECT_EQ(queue.size(), 5u);
}

}  // namespace
}  // namespace gpunode::membership
