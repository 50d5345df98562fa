// When a spare node looks at a job of others again, and what it finds out before it reads any data.
#include "actors/job/detail/join_attempts.hpp"

#include <gtest/gtest.h>

#include "actors/job/job_environment.hpp"

namespace gpunode::jobs::board {
namespace {

using namespace std::chrono_literals;

Time at(Duration time) {
  return Time(time);
}

TEST(JoinAttempts, are_one_at_a_time_however_long_one_takes) {
  JoinAttempts attempts;
  const JobId job{}, other{0, 1};
  EXPECT_TRUE(attempts.begin(job, at(0s)));
  EXPECT_FALSE(attempts.begin(job, at(0s)));
  EXPECT_FALSE(attempts.begin(job, at(24h)));
  EXPECT_TRUE(attempts.begin(other, at(0s)));
  attempts.missed(job, at(24h));
  EXPECT_FALSE(attempts.begin(job, at(24h + 14s)));
  EXPECT_TRUE(attempts.begin(job, at(24h + 15s)));
}

TEST(JoinAttempts, pause_twice_as_long_after_each_refusal_up_to_ten_minutes) {
  JoinAttempts attempts;
  const JobId job{};
  Time now = at(0s);
  for (Duration pause : {15s, 30s, 60s, 120s, 240s, 480s, 600s, 600s}) {
    ASSERT_TRUE(attempts.begin(job, now));
    attempts.refused(job, now);
    EXPECT_FALSE(attempts.begin(job, now + pause - 1ns));
    EXPECT_TRUE(attempts.unfit(job, now + pause - 1ns));
    EXPECT_FALSE(attempts.unfit(job, now + pause));
    now += pause;
  }
  ASSERT_TRUE(attempts.begin(job, now));
  EXPECT_FALSE(attempts.unfit(job, now)) << "it is being looked at";
  attempts.joined(job, now);
  EXPECT_FALSE(attempts.unfit(job, now));
  ASSERT_TRUE(attempts.begin(job, now + 15s));
  attempts.refused(job, now + 15s);
  EXPECT_TRUE(attempts.begin(job, now + 30s)) << "who took part begins anew";
}

TEST(JobEnvironment, of_another_version_is_told_before_anything_is_read) {
  JobEnvironment::Options options;  // no files: whoever reads them ends here
  options.version = "2";
  job::JobSpec spec;
  spec.version = "1";
  spec.model_kind = "unheard of";
  auto fit = JobEnvironment(options).matches(spec);
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::protocol_mismatch);
}

}  // namespace
}  // namespace gpunode::jobs::board
