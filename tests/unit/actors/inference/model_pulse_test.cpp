#include "actors/inference/model_pulse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(ModelPulses, AModelThatIsSilentForTooLongIsNotLive) {
  ModelPulses pulses;
  const Time begin = Time{} + 1h;
  EXPECT_TRUE(pulses.are_live(begin, 1s));
  pulses.beat("a", begin);
  pulses.beat("b", begin + 10s);
  EXPECT_TRUE(pulses.are_live(begin + 10s, 10s));
  EXPECT_FALSE(pulses.are_live(begin + 11s, 10s));
  pulses.beat("a", begin + 11s);
  EXPECT_TRUE(pulses.are_live(begin + 11s, 10s));
  pulses.forget("a");
  pulses.forget("b");
  EXPECT_TRUE(pulses.are_live(begin + 24h, 10s));
}

// A model that answers as it is told to.
class Readiness : public ::testing::Test {
 protected:
  Readiness() {
    pulses_.begin_loading("a");
    pulses_.probe_by("a", [this] {
      ++probes_;
      if (answers_) pulses_.computed("a", clock_.now(), how_);
    });
  }
  std::string why() {
    const auto ready = pulses_.readiness(clock_);
    return ready ? "" : ready.error().message();
  }

  FakeClock clock_;
  ModelPulses pulses_{{.fresh = 1s, .answers_within = 20ms}};
  int probes_ = 0;
  bool answers_ = true;
  Result<void> how_ = {};
};

TEST_F(Readiness, OneThatIsLoadedTakesItsTimeAndIsNotReady) {
  EXPECT_THAT(why(), HasSubstr("'a' is being loaded"));
  EXPECT_EQ(probes_, 0);
  EXPECT_TRUE(pulses_.are_live(Time{} + 24h, 1s));
  pulses_.beat("a", clock_.now());
  EXPECT_EQ(why(), "");
  pulses_.begin_loading("a");
  EXPECT_THAT(why(), HasSubstr("'a' is being loaded")) << "whatever it computed before it moves";
}

TEST_F(Readiness, WhatItComputedAMomentAgoIsEnough) {
  pulses_.beat("a", clock_.now());
  EXPECT_EQ(why(), "");
  for (int poll = 0; poll < 1000; ++poll) EXPECT_EQ(why(), "");
  EXPECT_EQ(probes_, 1) << "one for all";
  clock_.advance(900ms);
  pulses_.computed("a", clock_.now());
  clock_.advance(900ms);
  EXPECT_EQ(why(), "");
  EXPECT_EQ(probes_, 1) << "it is busy";
  clock_.advance(200ms);
  EXPECT_EQ(why(), "");
  EXPECT_EQ(probes_, 2);
}

TEST_F(Readiness, OneThatLivesAndFailsIsNotReadyUntilItComputesAgain) {
  how_ = Error{ErrorCode::device_lost, "fell off the bus"};
  pulses_.beat("a", clock_.now());
  EXPECT_THAT(why(), AllOf(HasSubstr("'a'"), HasSubstr("fell off the bus")));
  EXPECT_TRUE(pulses_.are_live(clock_.now(), 1s));
  how_ = {};
  EXPECT_THAT(why(), HasSubstr("fell off the bus")) << "a moment ago";
  clock_.advance(1100ms);
  EXPECT_EQ(why(), "");
}

TEST_F(Readiness, OneThatDoesNotAnswerIsWaitedForOnceAndAskedOnce) {
  answers_ = false;
  pulses_.beat("a", clock_.now());
  EXPECT_THAT(why(), HasSubstr("has not answered a probe"));
  clock_.advance(1h);
  for (int poll = 0; poll < 1000; ++poll) EXPECT_THAT(why(), HasSubstr("has not answered"));
  EXPECT_EQ(probes_, 1);
  pulses_.computed("a", clock_.now());
  EXPECT_EQ(why(), "") << "late, and it goes on";
  pulses_.forget("a");
  EXPECT_EQ(why(), "");
  pulses_.computed("a", clock_.now());
  EXPECT_FALSE(pulses_.known("a", clock_.now())) << "the end of one that is gone changes nothing";
}

TEST_F(Readiness, IsAnsweredFromAnotherThread) {
  ModelPulses pulses({.fresh = 1s, .answers_within = 1h});
  std::thread model;
  pulses.beat("b", clock_.now());
  pulses.probe_by("b", [&] {
    model = std::thread([&] {
      pulses.computed("b", clock_.now(), Error{ErrorCode::internal, "no"});
    });
  });
  const auto ready = pulses.readiness(clock_);
  model.join();
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::unavailable);
}

}  // namespace
}  // namespace gpunode::inference
