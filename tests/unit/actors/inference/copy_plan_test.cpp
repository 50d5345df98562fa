// Who is asked for which piece of a model: everybody, nobody for what is here, and others for what one does
// not give; and from any seed all pieces come while one good node is left.
#include "actors/inference/copy_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace gpunode::inference {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}

std::map<NodeId, std::size_t> count(const std::vector<CopyPlan::Ask>& asks) {
  std::map<NodeId, std::size_t> of;
  for (const auto& one : asks) ++of[one.holder];
  return of;
}

TEST(CopyPlan, AsksAllAFewAtOnceAndInTurns) {
  CopyPlan plan(20);
  EXPECT_TRUE(plan.is_stuck());
  plan.set_holders({node(1), node(2), node(3)});
  const auto asks = plan.next();
  EXPECT_THAT(asks, SizeIs(3 * CopyPlan::kAtOnce));
  std::set<std::size_t> pieces;
  for (const auto& one : asks) pieces.insert(one.piece);
  EXPECT_THAT(pieces, SizeIs(asks.size()));
  for (const auto& [holder, asked] : count(asks)) EXPECT_EQ(asked, CopyPlan::kAtOnce);
  EXPECT_THAT(plan.next(), IsEmpty());
  EXPECT_TRUE(plan.on_good(asks[0].holder, asks[0].piece));
  EXPECT_FALSE(plan.on_good(asks[0].holder, asks[0].piece));
  const auto more = plan.next();
  ASSERT_THAT(more, SizeIs(1));
  EXPECT_EQ(more[0].holder, asks[0].holder);
  CopyPlan few(2);
  few.set_holders({node(1), node(2)});
  EXPECT_THAT(count(few.next()), SizeIs(2));
}

TEST(CopyPlan, WhatASlowOneOwesIsAskedOfAnotherAtTheEnd) {
  CopyPlan plan(2);
  plan.set_holders({node(1), node(2)});
  const auto asks = plan.next();
  ASSERT_THAT(asks, SizeIs(2));
  EXPECT_TRUE(plan.on_good(asks[0].holder, asks[0].piece));
  const auto again = plan.next();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].holder, asks[0].holder);
  EXPECT_EQ(again[0].piece, asks[1].piece);
  EXPECT_TRUE(plan.on_good(again[0].holder, again[0].piece));
  EXPECT_TRUE(plan.is_done());
  EXPECT_FALSE(plan.on_good(asks[1].holder, asks[1].piece));
  EXPECT_EQ(plan.given().at(asks[0].holder), 2u);
}

TEST(CopyPlan, WhoGivesWrongBytesOrNothingIsAskedNoMore) {
  CopyPlan plan(8);
  plan.set_holders({node(1), node(2)});
  std::vector<std::size_t> owed;  // by the second
  for (const auto& one : plan.next())
    if (one.holder == node(2)) owed.push_back(one.piece);
  ASSERT_THAT(owed, SizeIs(CopyPlan::kAtOnce));
  plan.on_wrong(node(1));
  plan.set_holders({node(1), node(2)});
  EXPECT_THAT(plan.next(), IsEmpty());
  for (std::size_t i = 0; i < CopyPlan::kMostFailed; ++i) {
    EXPECT_FALSE(plan.is_stuck());
    plan.on_failed(node(2), owed[i]);
    plan.on_failed(node(2), owed[i]);  // it was asked once
  }
  EXPECT_TRUE(plan.is_stuck());
  EXPECT_EQ(plan.here(), 0u);
  plan.set_holders({node(3)});
  EXPECT_FALSE(plan.is_stuck());
  EXPECT_THAT(plan.next(), SizeIs(CopyPlan::kAtOnce));
}

TEST(CopyPlan, WhatWasAskedOfOneThatIsGoneIsAskedOfOthers) {
  CopyPlan plan(3);
  plan.set_holders({node(1)});
  EXPECT_THAT(plan.next(), SizeIs(3));
  plan.set_holders({});
  EXPECT_TRUE(plan.is_stuck());
  plan.set_holders({node(2)});
  EXPECT_THAT(plan.next(), SizeIs(3));
  // What was on its way counts.
  EXPECT_TRUE(plan.on_good(node(1), 1));
  EXPECT_EQ(plan.here(), 1u);
}

// From each seed: nodes come and go, fail, lie and are slow; one is good throughout.
TEST(CopyPlan, AllPiecesComeWhileOneGoodNodeIsThere) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    CopyPlan plan(1 + rng.below(40));
    std::vector<CopyPlan::Ask> under_way;
    std::size_t asked = 0;
    for (int turn = 0; !plan.is_done(); ++turn) {
      ASSERT_LT(turn, 5000) << seed;
      std::vector<NodeId> holders{node(1)};
      for (int other = 2; other < 6; ++other)
        if (rng.below(3) > 0) holders.push_back(node(other));
      plan.set_holders(holders);
      for (const auto& one : plan.next()) {
        ++asked;
        under_way.push_back(one);
      }
      ASSERT_FALSE(under_way.empty()) << seed;
      const auto at = under_way.begin() + static_cast<std::ptrdiff_t>(rng.below(under_way.size()));
      const CopyPlan::Ask ended = *at;
      under_way.erase(at);
      if (ended.holder == node(1) || rng.below(2) == 0)
        plan.on_good(ended.holder, ended.piece);
      else if (rng.below(8) == 0)
        plan.on_wrong(ended.holder);
      else
        plan.on_failed(ended.holder, ended.piece);
    }
    EXPECT_LT(asked, 400u) << seed;
  }
}

}  // namespace
}  // namespace gpunode::inference
