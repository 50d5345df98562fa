#include "actors/job/told_ends.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

JobId job(std::uint64_t number) {
  return JobId{number, number};
}

TEST(ToldEnds, drops_the_oldest_where_there_are_too_many) {
  ToldEnds ends;
  for (std::uint64_t number = 0; number < ToldEnds::kMost; ++number)
    EXPECT_TRUE(ends.add(job(number), static_cast<std::int64_t>(1000 - number), 10).empty());
  const std::uint64_t oldest = ToldEnds::kMost - 1;
  EXPECT_EQ(ends.add(job(5000), 2000, 10), std::vector<JobId>{job(oldest)});
  EXPECT_EQ(ends.add(job(5001), 1, 10), std::vector<JobId>{job(5001)}) << "it is the oldest itself";
}

TEST(ToldEnds, drops_as_many_as_their_bytes_want) {
  ToldEnds ends;
  for (std::uint64_t number = 0; number < 4; ++number)
    EXPECT_TRUE(
        ends.add(job(number), static_cast<std::int64_t>(number), ToldEnds::kMostBytes / 4).empty());
  EXPECT_EQ(ends.add(job(9), 9, ToldEnds::kMostBytes / 2), (std::vector<JobId>{job(0), job(1)}));
}

TEST(ToldEnds, counts_once_what_is_told_again_and_not_what_is_at_work_again) {
  ToldEnds ends;
  for (int time = 0; time < 10; ++time)
    EXPECT_TRUE(ends.add(job(1), time, ToldEnds::kMostBytes / 2).empty());
  EXPECT_TRUE(ends.add(job(2), 20, ToldEnds::kMostBytes / 2).empty());
  ends.drop(job(1));
  ends.drop(job(1));
  EXPECT_TRUE(ends.add(job(3), 30, ToldEnds::kMostBytes / 2).empty());
}

}  // namespace
}  // namespace gpunode::jobs
