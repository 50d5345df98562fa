// Who is put off, for how long, and who is not.
#include "runtime/security/offenders.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

class OffendersTest : public ::testing::Test {
 protected:
  static NodeId node(std::uint8_t number) {
    NodeId id;
    id.value[0] = std::byte{number};
    return id;
  }
  void offend(const NodeId& by, int times, double count = 1) {
    for (int time = 0; time < times; ++time) offenders_.offended(by, count);
  }

  FakeClock clock_;
  Offenders offenders_{clock_};
  NodeId bad_ = node(1), other_ = node(2);
};

TEST_F(OffendersTest, some_faults_are_tolerated_and_many_are_not) {
  offend(bad_, 100);
  EXPECT_FALSE(offenders_.is_put_off(bad_));
  EXPECT_TRUE(offenders_.take_news().put_off.empty());
  offend(bad_, 1);
  EXPECT_TRUE(offenders_.is_put_off(bad_));
  EXPECT_FALSE(offenders_.is_put_off(other_));
  const auto news = offenders_.take_news();
  ASSERT_EQ(news.put_off.size(), 1u);
  EXPECT_EQ(news.put_off[0].node, bad_);
  EXPECT_EQ(news.put_off[0].pause, 2s);
  EXPECT_TRUE(offenders_.take_news().put_off.empty()) << "told once";
}

TEST_F(OffendersTest, a_message_too_many_counts_less_than_a_forged_one) {
  offend(bad_, 450, Offenders::kTooMany);
  EXPECT_FALSE(offenders_.is_put_off(bad_));
  offend(bad_, 100, Offenders::kTooMany);
  EXPECT_TRUE(offenders_.is_put_off(bad_));
}

TEST_F(OffendersTest, a_fault_now_and_then_is_never_enough) {
  for (int second = 0; second < 1000; ++second) {
    offend(bad_, 1);
    clock_.advance(1s);
  }
  EXPECT_FALSE(offenders_.is_put_off(bad_));
}

TEST_F(OffendersTest, each_time_takes_longer_up_to_a_minute_and_is_forgotten) {
  std::vector<Duration> pauses;
  for (int time = 0; time < 7; ++time) {
    offend(bad_, 500);
    const auto news = offenders_.take_news();
    ASSERT_EQ(news.put_off.size(), 1u);
    pauses.push_back(news.put_off[0].pause);
    clock_.advance(pauses.back() - 1ms);
    EXPECT_TRUE(offenders_.is_put_off(bad_));
    EXPECT_TRUE(offenders_.take_news().heard_again.empty());
    clock_.advance(1ms);
    EXPECT_FALSE(offenders_.is_put_off(bad_));
    EXPECT_EQ(offenders_.take_news().heard_again, std::vector{bad_});
    EXPECT_TRUE(offenders_.take_news().heard_again.empty()) << "told once";
  }
  EXPECT_EQ(pauses, (std::vector<Duration>{2s, 4s, 8s, 16s, 32s, 60s, 60s}));
  clock_.advance(11min);
  offend(bad_, 500);
  EXPECT_EQ(offenders_.take_news().put_off.at(0).pause, 2s);
}

TEST_F(OffendersTest, what_was_under_way_makes_the_pause_no_longer) {
  offend(bad_, 101);
  offend(bad_, 5000);
  clock_.advance(2s);
  EXPECT_FALSE(offenders_.is_put_off(bad_));
}

}  // namespace
}  // namespace gpunode::security
