#include "actors/job/job_phase.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

TEST(JobPhase, has_a_text_of_its_own_that_is_read_back) {
  for (int index = 0; index <= static_cast<int>(JobPhase::removed); ++index) {
    const auto phase = static_cast<JobPhase>(index);
    EXPECT_EQ(parse_job_phase(to_string(phase)), phase) << to_string(phase);
  }
  EXPECT_EQ(to_string(JobPhase::failed), "failed");
  EXPECT_EQ(to_string(JobPhase::running), "running");
  EXPECT_EQ(parse_job_phase(""), std::nullopt);
  EXPECT_EQ(parse_job_phase("Running"), std::nullopt);
}

TEST(JobPhase, is_over_when_it_is_finished_failed_or_removed) {
  EXPECT_TRUE(is_over(JobPhase::finished) && is_over(JobPhase::failed) &&
              is_over(JobPhase::removed));
  EXPECT_FALSE(is_over(JobPhase::stopped) || is_over(JobPhase::preparing) ||
               is_over(JobPhase::waiting));
}

}  // namespace
}  // namespace gpunode::jobs
