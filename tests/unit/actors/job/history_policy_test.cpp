#include "actors/job/history_policy.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

using namespace std::chrono_literals;

TEST(HistoryPolicy, writes_what_changed_one_at_a_time_and_at_most_once_a_second) {
  HistoryPolicy policy;
  const Time start{100s};
  EXPECT_FALSE(policy.begins_to_write(start)) << "nothing has changed";
  policy.on_change();
  EXPECT_TRUE(policy.begins_to_write(start));
  policy.on_change();
  EXPECT_FALSE(policy.begins_to_write(start + 5s)) << "the disk has not answered";
  EXPECT_FALSE(policy.on_written(start + 5s, true));
  EXPECT_TRUE(policy.begins_to_write(start + 5s));
  EXPECT_FALSE(policy.on_written(start + 5s, true));
  policy.on_change();
  EXPECT_FALSE(policy.begins_to_write(start + 5900ms));
  EXPECT_TRUE(policy.begins_to_write(start + 5900ms, true)) << "this node's part ends";
}

TEST(HistoryPolicy, a_disk_that_does_not_take_it_is_named_once_and_tried_again) {
  HistoryPolicy policy;
  Time now{100s};
  policy.on_change();
  ASSERT_TRUE(policy.begins_to_write(now));
  EXPECT_TRUE(policy.on_written(now, false));
  EXPECT_FALSE(policy.begins_to_write(now + 5s));
  ASSERT_TRUE(policy.begins_to_write(now += 10s));
  EXPECT_FALSE(policy.on_written(now, false)) << "said before";
  ASSERT_TRUE(policy.begins_to_write(now += 10s));
  EXPECT_FALSE(policy.on_written(now, true));
  policy.on_change();
  ASSERT_TRUE(policy.begins_to_write(now += 10s));
  EXPECT_TRUE(policy.on_written(now, false));
}

TEST(HistoryPolicy, asks_one_member_after_another_until_nothing_is_missing_or_nobody_knows) {
  HistoryPolicy policy;
  Time now{100s};
  const std::vector<NodeId> others = {node(1), node(2)};
  EXPECT_FALSE(policy.asks(now, 1, others));
  EXPECT_EQ(policy.asks(now, 41, others), node(1));
  EXPECT_FALSE(policy.asks(now, 41, others)) << "it has not answered";
  policy.on_answer();
  EXPECT_EQ(policy.asks(now, 41, others), node(2));
  policy.on_answer();
  EXPECT_FALSE(policy.asks(now, 41, others));
  int questions = 0;
  for (int second = 0; second < 60; ++second, now += 1s)
    if (policy.asks(now, 41, others)) {
      ++questions;
      policy.on_answer();
    }
  EXPECT_EQ(questions, 4) << "three rounds in all";
  EXPECT_EQ(policy.asks(now, 61, others), node(1)) << "something else is missing now";
}

}  // namespace
}  // namespace gpunode::jobs
