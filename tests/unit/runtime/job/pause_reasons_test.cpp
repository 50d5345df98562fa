#include "runtime/job/pause_reasons.hpp"

#include <gtest/gtest.h>

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;

TEST(PauseReasons, each_is_told_once_while_it_holds) {
  PauseReasons reasons;
  EXPECT_FALSE(reasons.any());
  EXPECT_TRUE(reasons.tell(Time{}, "no quorum"));
  EXPECT_FALSE(reasons.tell(Time{} + 1h, "no quorum"));
  EXPECT_TRUE(reasons.any());
}

TEST(PauseReasons, one_that_holds_again_is_told_again_but_not_at_each_turn) {
  PauseReasons reasons;
  reasons.tell(Time{}, "no quorum");
  EXPECT_TRUE(reasons.tell(Time{} + 1s, "waiting for a lease"));
  EXPECT_FALSE(reasons.tell(Time{} + 9999ms, "no quorum"));
  EXPECT_TRUE(reasons.tell(Time{} + 10s, "no quorum"));
}

TEST(PauseReasons, after_sixteen_no_new_one_is_told_until_the_job_has_gone_on) {
  PauseReasons reasons;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(reasons.tell(Time{}, std::to_string(i)));
  EXPECT_FALSE(reasons.tell(Time{}, "one more"));
  reasons.clear();
  EXPECT_FALSE(reasons.any());
  EXPECT_TRUE(reasons.tell(Time{}, "one more"));
}

}  // namespace
}  // namespace gpunode::job
