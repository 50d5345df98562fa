#include "actors/inference/model_pulse.hpp"

#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

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

TEST(ModelPulses, OneThatIsLoadedTakesItsTimeAndIsNotReady) {
  ModelPulses pulses;
  EXPECT_TRUE(pulses.are_ready());
  pulses.begin_loading("a");
  EXPECT_FALSE(pulses.are_ready());
  EXPECT_TRUE(pulses.are_live(Time{} + 24h, 1s));
  pulses.beat("a", Time{} + 24h);
  EXPECT_TRUE(pulses.are_ready());
}

}  // namespace
}  // namespace gpunode::inference
