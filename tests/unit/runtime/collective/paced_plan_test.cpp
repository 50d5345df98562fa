#include "runtime/collective/paced_plan.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace gpunode::collective {
namespace {

using ::testing::ElementsAre;

Paces paces_of(const std::vector<std::uint32_t>& slice_us, std::uint32_t gradient_us = 0) {
  Paces paces = Paces::of_members(static_cast<std::uint16_t>(slice_us.size()));
  for (std::size_t rank = 0; rank < slice_us.size(); ++rank)
    if (slice_us[rank] > 0) paces.members[rank] = {slice_us[rank], 1, 8};
  paces.gradient_us = gradient_us;
  return paces;
}

std::vector<std::size_t> paced_shares(const SlicePlan& plan, std::size_t members) {
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < members; ++rank)
    counts.push_back(plan.slices_of(static_cast<std::uint16_t>(rank)).size());
  return counts;
}

std::vector<std::size_t> settled(const Tree& tree, const Paces& paces) {
  const auto members = static_cast<std::uint16_t>(paces.members.size());
  return paced_shares(paced_plan(tree, balanced_plan(tree, members), paces, {1, false}), members);
}

TEST(PacedPlan, gives_a_member_of_half_speed_half_the_slices) {
  const Tree tree = Tree::of_slices(32);
  EXPECT_THAT(settled(tree, paces_of({1000, 2000})), ElementsAre(22, 10))
      << "as fast as 21 and 11, with one partial sum less";
  EXPECT_THAT(settled(tree, paces_of({1000, 1000, 2000})), ElementsAre(13, 13, 6));
  EXPECT_THAT(settled(Tree::of_slices(8), paces_of({1000, 3000})), ElementsAre(6, 2));
}

TEST(PacedPlan, of_equal_members_is_the_balanced_plan) {
  for (std::uint32_t slices : {2u, 8u, 12u, 16u, 32u, 60u})
    for (std::uint16_t members = 2; members <= std::min(slices, 9u); ++members) {
      const Tree tree = Tree::of_slices(slices);
      const SlicePlan balanced = balanced_plan(tree, members);
      const Paces paces = paces_of(std::vector<std::uint32_t>(members, 700));
      EXPECT_EQ(paced_plan(tree, balanced, paces, {1, false}), balanced);
      auto best = paced_shares(paced_plan(tree, balanced, paces, {1, true}), members);
      std::ranges::sort(best, std::greater<>());
      EXPECT_EQ(best, paced_shares(balanced, members)) << slices << " slices, " << members;
    }
}

TEST(PacedPlan, sends_fewer_partial_sums_where_the_wire_is_the_limit) {
  const Tree tree = Tree::of_slices(8);
  EXPECT_THAT(settled(tree, paces_of({1000, 1000, 1000}, 100)), ElementsAre(3, 3, 2));
  auto wired = settled(tree, paces_of({1000, 1000, 1000}, 10000));
  std::ranges::sort(wired, std::greater<>());
  EXPECT_THAT(wired, ElementsAre(4, 2, 2));
}

TEST(PacedPlan, does_not_count_partial_sums_where_a_member_sends_one_whatever_it_has) {
  const Tree tree = Tree::of_slices(8);
  const Paces paces = paces_of({1000, 1000, 1000}, 10000);
  auto even =
      paced_shares(paced_plan(tree, plan_of_shares(tree, {4, 2, 2}), paces, {1, true, true}), 3);
  std::ranges::sort(even, std::greater<>());
  EXPECT_THAT(even, ElementsAre(3, 3, 2));
}

TEST(PacedPlan, does_not_move_for_noise) {
  const Tree tree = Tree::of_slices(128);
  SlicePlan plan = balanced_plan(tree, 2);
  EXPECT_EQ(paced_plan(tree, plan, paces_of({1000, 1030}), {1, false}), plan);
  EXPECT_NE(paced_plan(tree, plan, paces_of({1000, 1200}), {1, false}), plan);
}

TEST(PacedPlan, gives_a_newcomer_the_share_of_the_median_member) {
  const Tree tree = Tree::of_slices(30);
  const SlicePlan without = plan_of_shares(tree, {10, 20, 0});
  EXPECT_THAT(paced_shares(paced_plan(tree, without, paces_of({2000, 1000, 0}), {1, false}), 3),
              ElementsAre(6, 12, 12))
      << "the lower median of two is the faster: no member waits for a guess";
}

TEST(PacedPlan, fills_whole_waves_of_workers) {
  const Tree tree = Tree::of_slices(12);
  Paces paces = paces_of({1000, 1000});
  paces.members[0].workers = 4;
  EXPECT_THAT(paced_shares(paced_plan(tree, balanced_plan(tree, 2), paces, {1, false}), 2),
              ElementsAre(10, 2));
}

TEST(PacedPlan, every_member_has_a_slice_and_all_slices_an_owner_whatever_the_paces) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    const auto slices = static_cast<std::uint32_t>(1 + rng.below(round % 50 == 0 ? 1000 : 70));
    const auto members = static_cast<std::uint16_t>(1 + rng.below(12));
    const Tree tree = Tree::of_slices(slices);
    std::vector<std::uint64_t> words;
    for (std::uint16_t i = 0; i <= members; ++i)
      words.push_back(rng.chance(0.2) ? ~std::uint64_t{0} >> rng.below(64) : rng.below(1u << 20));
    const Paces paces = Paces::from_words(words, members);
    const SlicePlan plan =
        paced_plan(tree, balanced_plan(tree, members), paces, {16, rng.chance(0.5)});
    ASSERT_TRUE(plan.fits(tree, members));
    if (slices < members) continue;
    for (std::size_t share : paced_shares(plan, members)) EXPECT_GT(share, 0u);
  }
}

TEST(Paces, follow_a_member_that_slows_down_and_forgive_one_outlier) {
  const Tree tree = Tree::of_slices(32);
  SlicePlan plan = balanced_plan(tree, 2);
  Paces paces = Paces::of_members(2);
  const auto step = [&](std::uint32_t first, std::uint32_t second) {
    std::vector<StepTimes> told(2);
    const std::uint32_t each[] = {first, second};
    for (std::uint16_t rank = 0; rank < 2; ++rank) {
      const auto share = static_cast<std::uint16_t>(plan.slices_of(rank).size());
      told[rank].compute = {each[rank] * share, 0, share, 1};
    }
    paces = paces_after(paces, tree, plan, told);
    plan = paced_plan(tree, plan, paces, {1, false});
  };
  for (int i = 0; i < 10; ++i) step(1000, 1000);
  step(1000, 100000);
  EXPECT_LT(paces.members[1].slice_us, 1500u);
  for (int i = 0; i < 40; ++i) step(1000, 1000);
  EXPECT_THAT(paced_shares(plan, 2), ElementsAre(16, 16));
  for (int i = 0; i < 40; ++i) step(1000, 2000);
  EXPECT_THAT(paced_shares(plan, 2), ElementsAre(21, 11))
      << "the first of the fastest on the way there";
}

TEST(Paces, who_computed_nothing_keeps_its_pace) {
  const Tree tree = Tree::of_slices(4);
  const Paces before = paces_of({1000, 2000});
  std::vector<StepTimes> told(2);
  told[0].compute = {2000, 0, 2, 1};
  const Paces after = paces_after(before, tree, balanced_plan(tree, 2), told);
  EXPECT_EQ(after.members, before.members);
}

TEST(Paces, what_the_exchange_costs_is_what_the_last_to_compute_waits) {
  const Tree tree = Tree::of_slices(8);
  std::vector<StepTimes> told(2);
  told[0].compute = {4000, 0, 4, 1};
  told[1].compute = {9000, 0, 4, 1};
  told[0].gather_us = 6000;
  told[1].gather_us = 1000;
  const Paces after = paces_after(Paces::of_members(2), tree, balanced_plan(tree, 2), told);
  EXPECT_EQ(after.gradient_us, 1000u) << "one partial sum and half the result: one gradient";
}

TEST(Paces, travel_as_words) {
  const Paces paces = paces_of({1000, 0, 4000000000u}, 77);
  EXPECT_EQ(Paces::from_words(paces.to_words(), 3), paces);
  EXPECT_EQ(Paces::from_words(paces.to_words(), 2), Paces::of_members(2));
}

}  // namespace
}  // namespace gpunode::collective
