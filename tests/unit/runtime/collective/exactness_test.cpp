// The promise itself: the bits of a step's sum do not depend on how many members there were, who
// had which slice, or in which order messages came. And that these cases would notice if they did.
#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

struct Case {
  Tree tree = Tree::of_slices(1);
  std::uint16_t members = 1;
  SlicePlan plan;
  std::vector<Values> slices;
};

// 15 slice counts x 5 member counts x 4 kinds of plan x 2 kinds of values x 43 draws = 25 800.
constexpr int kDraws = 43;
constexpr std::size_t kLength = 21;

template <class Visit>
std::size_t for_each_case(Visit visit) {
  std::size_t cases = 0;
  Rng rng(2026);
  for (std::uint32_t slice_count = 2; slice_count <= 16; ++slice_count)
    for (std::uint16_t members = 1; members <= 5; ++members)
      for (int kind = 0; kind < 4; ++kind)
        for (bool wild : {false, true})
          for (int draw = 0; draw < kDraws; ++draw, ++cases) {
            Case one{Tree::of_slices(slice_count), members, {}, {}};
            if (kind == 0) one.plan = even_plan(slice_count, members);
            if (kind == 1) one.plan = runs_plan(rng, slice_count, members);
            if (kind == 2) one.plan = scattered_plan(rng, slice_count, members);
            if (kind == 3) one.plan = balanced_plan(one.tree, members);
            one.slices = random_slices(rng, slice_count, kLength, wild);
            visit(one, rng);
          }
  return cases;
}

TEST(Exactness, the_sum_has_the_same_bits_for_every_number_of_members_and_every_plan) {
  std::size_t cases = for_each_case([](const Case& one, Rng& rng) {
    Group group(one.tree, one.plan, one.members, {kLength, 4}, one.slices,
                static_cast<std::uint32_t>(rng.below(5)));
    group.compute_all();
    group.run(rng, {.shuffled = true, .placed = 0.7});
    ASSERT_TRUE(group.all_committed());
    Values expected = group.expected();
    DataFingerprint data_fingerprint = fed_of(one.tree, one.tree.root());
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      ASSERT_TRUE(same_bits(*group[rank].result(), expected));
      ASSERT_EQ(group[rank].data_fingerprint(), data_fingerprint);
      ASSERT_EQ(group[rank].result_digest(), group[0].result_digest());
      ASSERT_EQ(group[rank].dropped_messages(), 0u);
    }
  });
  EXPECT_EQ(cases, 25'800u);
}

TEST(Exactness, the_digest_does_not_depend_on_the_members_either) {
  Rng rng(4);
  Tree tree = Tree::of_slices(12);
  auto slices = random_slices(rng, 12, 100, true);
  Digest first;
  for (std::uint16_t members = 1; members <= 7; ++members) {
    Group group(tree, scattered_plan(rng, 12, members), members, {100, 16}, slices, members);
    group.compute_all();
    group.run(rng, {.shuffled = true});
    ASSERT_TRUE(group.all_committed());
    if (members == 1) first = group[0].result_digest();
    EXPECT_EQ(group[0].result_digest(), first);
  }
}

std::vector<Values> cover_sums(const Case& one, std::uint16_t rank) {
  std::vector<Values> sums;
  for (TreeNode node : one.tree.cover(one.plan.slices_of(rank)))
    sums.push_back(tree_sum(one.tree, node, one.slices));
  return sums;
}

// Each mutation is a plausible other way to add; the cases above have to tell it from the right
// one.
std::size_t differing_cases(Values (*mutant)(const Case&)) {
  std::size_t differ = 0;
  for_each_case([&](const Case& one, Rng&) {
    if (!same_bits(mutant(one), tree_sum(one.tree, one.tree.root(), one.slices))) ++differ;
  });
  return differ;
}

TEST(Exactness, adding_the_partials_of_one_member_together_is_noticed) {
  EXPECT_GT(differing_cases([](const Case& one) {
              std::vector<Values> totals;
              for (std::uint16_t rank = 0; rank < one.members; ++rank)
                if (auto sums = cover_sums(one, rank); !sums.empty())
                  totals.push_back(sum_in_order(sums));
              return sum_in_order(totals);
            }),
            5000u);
}

TEST(Exactness, adding_partials_by_rank_instead_of_by_the_tree_is_noticed) {
  EXPECT_GT(differing_cases([](const Case& one) {
              std::vector<Values> all;
              for (std::uint16_t rank = 0; rank < one.members; ++rank)
                for (Values& sum : cover_sums(one, rank)) all.push_back(std::move(sum));
              return sum_in_order(all);
            }),
            5000u);
}

TEST(Exactness, adding_slices_one_after_the_other_is_noticed) {
  EXPECT_GT(differing_cases([](const Case& one) { return sum_in_order(one.slices); }), 5000u);
}

}  // namespace
}  // namespace gpunode::collective
