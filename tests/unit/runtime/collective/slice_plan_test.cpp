#include "runtime/collective/slice_plan.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "runtime/base/rng.hpp"

namespace gpunode::collective {
namespace {

std::vector<std::uint32_t> shares(const SlicePlan& plan, std::uint16_t members) {
  std::vector<std::uint32_t> shares(members);
  for (std::uint16_t rank : plan.owner) ++shares.at(rank);
  return shares;
}

std::uint32_t partials(const Tree& tree, const SlicePlan& plan, std::uint16_t rank) {
  return static_cast<std::uint32_t>(tree.cover(plan.slices_of(rank)).size());
}

using Shares = std::vector<std::uint32_t>;

TEST(SlicePlan, shares_are_those_of_the_prototype) {
  auto of = [](std::uint32_t slices, std::uint16_t members) {
    return shares(balanced_plan(Tree::of_slices(slices), members), members);
  };
  EXPECT_EQ(of(8, 1), (Shares{8}));
  EXPECT_EQ(of(8, 2), (Shares{4, 4}));
  EXPECT_EQ(of(8, 3), (Shares{3, 3, 2}));
  EXPECT_EQ(of(8, 4), (Shares{2, 2, 2, 2}));
  EXPECT_EQ(of(8, 5), (Shares{2, 2, 2, 1, 1}));
  EXPECT_EQ(of(16, 5), (Shares{4, 4, 4, 2, 2}));
  EXPECT_EQ(of(32, 3), (Shares{11, 11, 10}));
  EXPECT_EQ(of(32, 5), (Shares{7, 7, 6, 6, 6}));
  EXPECT_EQ(of(12, 3), (Shares{4, 4, 4}));
  EXPECT_EQ(of(4, 6), (Shares{1, 1, 1, 1, 0, 0}));
}

TEST(SlicePlan, a_share_of_a_binary_tree_costs_one_partial_a_power_of_two) {
  for (std::uint32_t slices = 1; slices <= 256; slices *= 2)
    for (std::uint16_t members = 1; members <= 40; ++members) {
      Tree tree = Tree::of_slices(slices);
      SlicePlan plan = balanced_plan(tree, members);
      ASSERT_TRUE(plan.fits(tree, members));
      Shares got = shares(plan, members);
      std::uint32_t working = std::min<std::uint32_t>(members, slices);
      for (std::uint16_t rank = 0; rank < members; ++rank) {
        EXPECT_LE(got[rank], (slices + working - 1) / working);
        EXPECT_EQ(got[rank] > 0, rank < slices);
        ASSERT_EQ(partials(tree, plan, rank), static_cast<std::uint32_t>(std::popcount(got[rank])))
            << slices << " slices, " << members << " members, rank " << rank;
      }
    }
}

TEST(SlicePlan, of_a_mixed_tree_gives_whole_subtrees) {
  for (auto [radices, members] : {std::pair(std::vector<std::uint32_t>{3, 2, 2}, 3),
                                  {std::vector<std::uint32_t>{3, 2, 2}, 6},
                                  {std::vector<std::uint32_t>{5, 4}, 5},
                                  {std::vector<std::uint32_t>{3, 5, 2}, 15}}) {
    Tree tree = *Tree::of_radices(radices);
    SlicePlan plan = balanced_plan(tree, static_cast<std::uint16_t>(members));
    for (std::uint16_t rank = 0; rank < members; ++rank) EXPECT_EQ(partials(tree, plan, rank), 1u);
  }
}

TEST(SlicePlan, of_any_tree_costs_the_digits_of_the_share) {
  for (std::uint32_t slices = 1; slices <= 60; ++slices)
    for (std::uint16_t members = 1; members <= 12; ++members) {
      Tree tree = Tree::of_slices(slices);
      SlicePlan plan = balanced_plan(tree, members);
      ASSERT_TRUE(plan.fits(tree, members));
      for (std::uint16_t rank = 0; rank < members; ++rank) {
        std::uint32_t share = static_cast<std::uint32_t>(plan.slices_of(rank).size()), digits = 0;
        for (std::uint32_t radix : std::vector(tree.radices().rbegin(), tree.radices().rend())) {
          digits += share % radix;
          share /= radix;
        }
        ASSERT_EQ(partials(tree, plan, rank), digits + share);
      }
    }
}

TEST(SlicePlan, of_the_largest_tree_is_found) {
  Tree tree = Tree::of_slices(4096);
  for (std::uint16_t members : {1, 7, 64, 1365, 4095, 4096, 5000})
    EXPECT_TRUE(balanced_plan(tree, members).fits(tree, members));
}

TEST(SlicePlan, that_names_a_stranger_or_misses_a_slice_does_not_fit) {
  Tree tree = Tree::of_slices(4);
  SlicePlan plan{{0, 1, 2, 0}};
  EXPECT_TRUE(plan.fits(tree, 3));
  EXPECT_FALSE(plan.fits(tree, 2));
  EXPECT_FALSE(plan.fits(Tree::of_slices(8), 3));
}

TEST(SlicePlan, digest_tells_plans_apart) {
  EXPECT_EQ((SlicePlan{{0, 1}}.digest()), (SlicePlan{{0, 1}}.digest()));
  EXPECT_NE((SlicePlan{{0, 1}}.digest()), (SlicePlan{{1, 0}}.digest()));
  EXPECT_NE((SlicePlan{{0, 1}}.digest()), (SlicePlan{{0, 1, 0}}.digest()));
  EXPECT_NE((SlicePlan{{0}}.digest()), (SlicePlan{{256}}.digest()));
}

TEST(PlanAfterLoss, gives_the_whole_block_of_the_dead_where_that_is_balanced) {
  Tree tree = Tree::of_slices(8);
  SlicePlan old{{0, 0, 1, 1, 2, 2, 3, 3}};
  std::vector<std::int32_t> ranks{0, -1, 1, -1};
  EXPECT_EQ(plan_after_loss(tree, old, ranks, 2).owner,
            (std::vector<std::uint16_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(PlanAfterLoss, splits_a_block_that_would_make_one_member_the_slowest) {
  Tree tree = Tree::of_slices(8);
  SlicePlan old{{0, 0, 1, 1, 2, 2, 3, 3}};
  std::vector<std::int32_t> ranks{0, 1, 2, -1};
  EXPECT_EQ(shares(plan_after_loss(tree, old, ranks, 3), 3), (Shares{3, 3, 2}));
}

TEST(PlanAfterLoss, gives_newcomers_nothing) {
  Tree tree = Tree::of_slices(8);
  SlicePlan old{{0, 0, 0, 0, 1, 1, 1, 1}};
  std::vector<std::int32_t> ranks{2, -1};
  EXPECT_EQ(shares(plan_after_loss(tree, old, ranks, 3), 3), (Shares{0, 0, 8}));
}

TEST(PlanAfterLoss, of_nobody_is_the_balanced_plan) {
  Tree tree = Tree::of_slices(8);
  SlicePlan old{{0, 0, 0, 0, 1, 1, 1, 1}};
  std::vector<std::int32_t> ranks{-1, -1};
  EXPECT_EQ(plan_after_loss(tree, old, ranks, 3), balanced_plan(tree, 3));
}

TEST(PlanAfterLoss, survives_a_view_that_makes_no_sense) {
  Tree tree = Tree::of_slices(4);
  std::vector<std::int32_t> ranks{9, 0};
  EXPECT_TRUE(plan_after_loss(tree, SlicePlan{{0, 1, 7}}, ranks, 2).fits(tree, 2));
}

TEST(PlanAfterLoss, keeps_what_survivors_had_and_loads_nobody_needlessly) {
  Rng rng(11);
  for (int round = 0; round < 3000; ++round) {
    Tree tree = Tree::of_slices(1 + static_cast<std::uint32_t>(rng.below(48)));
    std::uint16_t members = static_cast<std::uint16_t>(1 + rng.below(7));
    SlicePlan old = balanced_plan(tree, members);
    if (rng.chance(0.3))
      for (auto& owner : old.owner) owner = static_cast<std::uint16_t>(rng.below(members));
    std::vector<std::int32_t> ranks;
    std::int32_t next = 0;
    for (int old_rank = 0; old_rank < members; ++old_rank)
      ranks.push_back(rng.chance(0.6) || (old_rank == members - 1 && next == 0) ? next++ : -1);
    std::uint16_t new_members = static_cast<std::uint16_t>(next + rng.below(3));
    SlicePlan plan = plan_after_loss(tree, old, ranks, new_members);
    ASSERT_TRUE(plan.fits(tree, new_members));
    std::uint32_t most_kept = 0;
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      if (ranks[rank] < 0) continue;
      auto kept = old.slices_of(rank);
      most_kept = std::max(most_kept, static_cast<std::uint32_t>(kept.size()));
      for (std::uint32_t slice : kept) ASSERT_EQ(plan.owner[slice], ranks[rank]);
    }
    std::uint32_t fair = (tree.slice_count() + next - 1) / static_cast<std::uint32_t>(next);
    Shares got = shares(plan, new_members);
    for (std::uint16_t rank = 0; rank < new_members; ++rank) {
      ASSERT_LE(got[rank], std::max(fair, most_kept));
      if (rank >= next) {
        ASSERT_EQ(got[rank], 0u);
      }
    }
    ASSERT_EQ(plan, plan_after_loss(tree, old, ranks, new_members));
  }
}

}  // namespace
}  // namespace gpunode::collective
