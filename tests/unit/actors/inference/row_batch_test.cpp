#include "actors/inference/row_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

class RowBatchTest : public ::testing::Test {
 protected:
  RowBatch::Id add(std::size_t rows, Duration within = 10s, const std::string& client = "a") {
    const auto id = batch_.add(now_, {rows, now_ + within, client});
    EXPECT_TRUE(id) << id.error().message();
    return id ? *id : 0;
  }
  ErrorCode refused(std::size_t rows, Duration within, const std::string& client = "a") {
    const auto id = batch_.add(now_, {rows, now_ + within, client});
    return id ? ErrorCode::internal : id.error().code;
  }
  static std::vector<RowBatch::Id> ids(const RowBatch::Pass& pass) {
    std::vector<RowBatch::Id> found;
    for (const auto& part : pass.parts) found.push_back(part.id);
    return found;
  }
  using Ids = std::vector<RowBatch::Id>;

  RowBatch batch_{{.rows = 8, .most_waiting_rows = 100, .most_waiting = 20}};
  Time now_ = Time{} + 1h;
};

TEST_F(RowBatchTest, AllThatWaitAreAnsweredTogether) {
  const Ids all{add(1), add(2), add(3)};
  const auto pass = batch_.next(now_);
  EXPECT_EQ(ids(pass), all);
  EXPECT_EQ(pass.rows, 6u);
  EXPECT_TRUE(batch_.is_empty());
  EXPECT_EQ(batch_.next(now_).rows, 0u);
}

TEST_F(RowBatchTest, OneOfManyRowsTakesSeveralPassesAndTheNextComesBesideItsRest) {
  const auto large = add(19), small = add(2);
  auto pass = batch_.next(now_);
  ASSERT_EQ(ids(pass), Ids{large});
  EXPECT_EQ(pass.rows, 8u);
  EXPECT_FALSE(pass.parts[0].is_last);
  pass = batch_.next(now_);
  EXPECT_EQ(pass.parts[0].first, 8u);
  pass = batch_.next(now_);
  EXPECT_EQ(ids(pass), (Ids{large, small}));
  EXPECT_EQ(pass.parts[0].first, 16u);
  EXPECT_EQ(pass.parts[0].count, 3u);
  EXPECT_TRUE(pass.parts[0].is_last);
  EXPECT_TRUE(batch_.is_empty());
}

TEST_F(RowBatchTest, WhoHadLeastGoesFirst) {
  add(8);
  batch_.next(now_);
  Ids greedy;
  for (int i = 0; i < 5; ++i) greedy.push_back(add(8));
  batch_.next(now_);
  const auto modest = add(1, 10s, "b");
  EXPECT_EQ(batch_.next(now_).parts[0].id, greedy[1]) << "who comes anew is no better than they";
  EXPECT_EQ(batch_.next(now_).parts[0].id, modest);
}

TEST_F(RowBatchTest, APassIsNoLongerThanEveryoneInItMayWait) {
  batch_.on_done(1, 10ms);
  batch_.on_done(8, 40ms);
  const auto patient = add(3), hurried = add(1, 90ms), last = add(2);
  now_ += 70ms;
  auto pass = batch_.next(now_);
  EXPECT_EQ(ids(pass), Ids{hurried}) << "40 ms, as with the others, are more than it may";
  pass = batch_.next(now_);
  EXPECT_EQ(ids(pass), (Ids{patient, last}));
}

TEST_F(RowBatchTest, WhatCannotBeReadyInTimeIsRefusedAndNeverComputed) {
  batch_.on_done(8, 100ms);
  batch_.on_done(1, 20ms);
  EXPECT_EQ(refused(1, 0s), ErrorCode::timeout);
  for (int i = 0; i < 4; ++i) add(8);
  EXPECT_EQ(refused(8, 300ms), ErrorCode::resource_exhausted) << "five passes take 500 ms";
  const auto late = add(1, 5s);
  now_ += 4990ms;
  const auto pass = batch_.next(now_);
  EXPECT_EQ(pass.late, Ids{late});
}

TEST_F(RowBatchTest, APassThatWasSlowOnceIsTriedAgain) {
  batch_.on_done(1, 60s);
  int refusals = 0;
  for (; refusals < 100; ++refusals) {
    add(1, 1s);
    if (batch_.next(now_).rows == 1) break;
  }
  EXPECT_GT(refusals, 5);
  EXPECT_LT(refusals, 60);
}

TEST_F(RowBatchTest, WhatWaitsIsBounded) {
  for (int i = 0; i < 10; ++i) add(1);
  EXPECT_EQ(refused(1, 10s), ErrorCode::resource_exhausted) << "half of them are for others";
  for (int i = 0; i < 10; ++i) add(1, 10s, "b");
  EXPECT_EQ(refused(1, 10s, "c"), ErrorCode::resource_exhausted);
  while (batch_.next(now_).rows > 0) {
  }
  add(40);
  EXPECT_EQ(refused(20, 10s), ErrorCode::resource_exhausted);
  add(50, 10s, "b");
  EXPECT_EQ(refused(20, 10s, "c"), ErrorCode::resource_exhausted);
  EXPECT_EQ(refused(51, 10s, "d"), ErrorCode::invalid_argument) << "that could never be";
}

TEST_F(RowBatchTest, WhoAsksForMuchMakesOthersNoLater) {
  batch_.on_done(8, 100ms);
  add(50);
  const auto modest = add(1, 300ms, "b");
  for (int pass = 0; pass < 2; ++pass)
    if (const auto in = ids(batch_.next(now_)); std::ranges::count(in, modest) > 0) return;
  FAIL() << "not in the first two passes";
}

// Those others come again as soon as they are answered.
TEST_F(RowBatchTest, WhoAsksForMuchIsAnsweredAmongManyWhoAskForLittle) {
  batch_ = RowBatch({.rows = 8, .most_waiting_rows = 400, .most_waiting = 100});
  for (const int others : {1, 3, 10}) {
    const auto large = add(40);
    std::map<RowBatch::Id, std::string> theirs;
    const auto come_again = [&](const std::string& who) { theirs[add(8, 1h, who)] = who; };
    for (int other = 0; other < others; ++other) come_again("other" + std::to_string(other));
    bool is_done = false;
    int passes = 0;
    for (; !is_done && passes < 1000; ++passes)
      for (const RowBatch::Part& part : batch_.next(now_).parts) {
        is_done |= part.id == large && part.is_last;
        if (part.is_last && theirs.contains(part.id)) come_again(theirs[part.id]);
      }
    EXPECT_LE(passes, 6 * (others + 1)) << others << " others";
    while (batch_.next(now_).rows > 0) {
    }
  }
}

// One that was slow once, beside something else: small ones tell that a large one cannot take that long.
TEST_F(RowBatchTest, ALargePassTakesNoLongerThanItsRowsDoOneByOne) {
  batch_.on_done(8, 10s);
  for (int i = 0; i < 100; ++i) batch_.on_done(1, 1ms);
  EXPECT_LE(*batch_.usual(8), 9ms);
  for (int i = 0; i < 5; ++i) add(1, 500ms);
}

TEST_F(RowBatchTest, OneThatIsOverIsNotAnswered) {
  const auto gone = add(3), there = add(1);
  batch_.end(gone);
  batch_.end(gone);
  EXPECT_EQ(ids(batch_.next(now_)), Ids{there});
}

}  // namespace
}  // namespace gpunode::inference
