#include "actors/inference/api_quota.hpp"

#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

class Quota : public ::testing::Test {
 protected:
  // 0: it has begun; else after so many seconds it may.
  long refused_for(std::uint64_t tokens = 0) {
    const auto refusal = quota_.begin(key_, tokens, now_);
    return refusal ? refusal->retry_after.count() : 0;
  }
  void end(std::uint64_t tokens, std::uint64_t used) { quota_.end(key_, tokens, used, now_); }

  ApiKey key_{.id = "k", .name = "k"};
  ApiQuota quota_;
  Time now_ = Time{} + 1h;
};

TEST_F(Quota, AKeyWithoutBoundsIsNeverRefused) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(refused_for(1'000'000), 0);
}

TEST_F(Quota, SoManyRequestsAMinuteAndTheTimeToWaitIsTrue) {
  key_.requests_per_minute = 6;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(refused_for(), 0);
  EXPECT_EQ(refused_for(), 10);
  now_ += 9s;
  EXPECT_EQ(refused_for(), 1);
  now_ += 1s;
  EXPECT_EQ(refused_for(), 0);
  now_ += 24h;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(refused_for(), 0);
  EXPECT_GT(refused_for(), 0) << "no more than a minute's worth is saved up";
}

TEST_F(Quota, TokensAreSetAsideAndPaidByWhatWasUsed) {
  key_.tokens_per_minute = 600;
  EXPECT_EQ(refused_for(400), 0);
  EXPECT_EQ(refused_for(400), 20) << "200 are left, 10 a second come";
  end(400, 100);
  EXPECT_EQ(refused_for(400), 0);
  end(400, 1000);  // the prompt was long
  EXPECT_EQ(refused_for(1), 51) << "500 are owed";
  now_ += 51s;
  EXPECT_EQ(refused_for(1), 0);
}

TEST_F(Quota, ATextMayBeLongerThanAMinuteGives) {
  key_.tokens_per_minute = 100;
  EXPECT_EQ(refused_for(5000), 0);
  EXPECT_EQ(refused_for(5000), 60);
  end(5000, 0);
  EXPECT_EQ(refused_for(5000), 0);
}

TEST_F(Quota, SoManyAreUnderWay) {
  key_.at_once = 2;
  EXPECT_EQ(refused_for(), 0);
  EXPECT_EQ(refused_for(), 0);
  EXPECT_EQ(refused_for(), 1);
  end(0, 0);
  EXPECT_EQ(refused_for(), 0);
}

TEST_F(Quota, WhatIsRefusedTakesNothing) {
  key_.requests_per_minute = 2;
  key_.tokens_per_minute = 10;
  EXPECT_EQ(refused_for(10), 0);
  for (int i = 0; i < 5; ++i) EXPECT_GT(refused_for(10), 0);
  end(10, 0);
  EXPECT_EQ(refused_for(10), 0);
}

TEST_F(Quota, KeysDoNotTakeFromEachOther) {
  key_.requests_per_minute = 1;
  EXPECT_EQ(refused_for(), 0);
  EXPECT_GT(refused_for(), 0);
  key_.id = "other";
  EXPECT_EQ(refused_for(), 0);
}

TEST_F(Quota, ANewBoundCountsAtOnce) {
  key_.requests_per_minute = 10;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(refused_for(), 0);
  key_.requests_per_minute = 5;
  EXPECT_GT(refused_for(), 0) << "eight were asked in this minute";
  key_.requests_per_minute = 20;
  EXPECT_EQ(refused_for(), 0);
}

}  // namespace
}  // namespace gpunode::inference
