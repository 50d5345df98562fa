#include "runtime/collective/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/rng.hpp"

namespace gpunode::collective {
namespace {

using Radices = std::vector<std::uint32_t>;

TEST(Tree, of_a_power_of_two_is_binary) {
  Tree tree = Tree::of_slices(8);
  EXPECT_EQ(tree.radices(), (Radices{2, 2, 2}));
  EXPECT_EQ(tree.slice_count(), 8u);
  EXPECT_EQ(tree.root(), (TreeNode{3, 0}));
  EXPECT_EQ(tree.width(0), 1u);
  EXPECT_EQ(tree.width(3), 8u);
}

TEST(Tree, of_another_count_has_its_odd_primes_at_the_top) {
  EXPECT_EQ(Tree::of_slices(12).radices(), (Radices{3, 2, 2}));
  EXPECT_EQ(Tree::of_slices(30).radices(), (Radices{3, 5, 2}));
  EXPECT_EQ(Tree::of_slices(7).radices(), (Radices{7}));
}

TEST(Tree, of_one_slice_is_its_own_root) {
  Tree tree = Tree::of_slices(1);
  EXPECT_EQ(tree.root(), (TreeNode{0, 0}));
  EXPECT_TRUE(tree.children(tree.root()).empty());
  std::vector<std::uint32_t> owned{0};
  EXPECT_EQ(tree.cover(owned), (std::vector<TreeNode>{{0, 0}}));
}

TEST(Tree, refuses_bad_radices_by_name) {
  for (Radices bad : {Radices{1}, Radices{0, 2}, Radices{4097}, Radices{64, 65},
                      Radices{4096, 4096, 4096, 4096, 4096, 4096}}) {
    auto tree = Tree::of_radices(bad);
    ASSERT_FALSE(tree);
    EXPECT_EQ(tree.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(Tree::of_radices({64, 64})->slice_count(), 4096u);
  EXPECT_EQ(Tree::of_radices({})->slice_count(), 1u);
}

TreeNode parent_of(const Tree& tree, TreeNode node) {
  const auto above = static_cast<std::uint8_t>(node.level + 1);
  return {above, tree.first_slice(node) / tree.width(above)};
}

TEST(Tree, children_and_parents_are_inverse) {
  Tree tree = *Tree::of_radices({3, 2, 4});
  for (std::uint8_t level = 0; level <= 3; ++level)
    for (std::uint32_t index = 0; index < tree.slice_count() / tree.width(level); ++index) {
      TreeNode node{level, index};
      std::uint32_t slice = tree.first_slice(node);
      for (TreeNode child : tree.children(node)) {
        EXPECT_EQ(parent_of(tree, child), node);
        EXPECT_EQ(tree.first_slice(child), slice);
        slice += tree.width(child.level);
      }
      if (level > 0) {
        EXPECT_EQ(slice, tree.first_slice(node) + tree.width(level));
      }
    }
}

TEST(Tree, knows_its_own_nodes) {
  Tree tree = Tree::of_slices(12);
  EXPECT_TRUE(tree.contains({0, 11}));
  EXPECT_FALSE(tree.contains({0, 12}));
  EXPECT_TRUE(tree.contains({2, 2}));
  EXPECT_FALSE(tree.contains({2, 3}));
  EXPECT_FALSE(tree.contains({4, 0}));
  EXPECT_FALSE(tree.contains({255, 4294967295u}));
}

TEST(Tree, cover_joins_only_whole_nodes) {
  Tree tree = Tree::of_slices(8);
  std::vector<std::uint32_t> owned{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(tree.cover(owned), (std::vector<TreeNode>{{0, 1}, {1, 1}, {1, 2}, {0, 6}}));
  EXPECT_TRUE(tree.cover({}).empty());
}

TEST(Tree, cover_ignores_slices_that_do_not_exist) {
  Tree tree = Tree::of_slices(4);
  std::vector<std::uint32_t> owned{2, 3, 4, 5, 6, 7};
  EXPECT_EQ(tree.cover(owned), (std::vector<TreeNode>{{1, 1}}));
}

TEST(Tree, cover_is_the_set_of_maximal_complete_nodes) {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Radices> shapes{{2, 2, 2, 2}, {3, 2, 2}, {2, 3, 2}, {5, 3}, {4, 4}, {17}};
    Tree tree = *Tree::of_radices(shapes[rng.below(shapes.size())]);
    double density = rng.uniform();
    std::vector<bool> owns(tree.slice_count());
    std::vector<std::uint32_t> owned;
    for (std::uint32_t slice = 0; slice < owns.size(); ++slice)
      if ((owns[slice] = rng.chance(density))) owned.push_back(slice);
    auto complete = [&](TreeNode node) {
      for (std::uint32_t i = 0; i < tree.width(node.level); ++i)
        if (!owns[tree.first_slice(node) + i]) return false;
      return true;
    };
    std::vector<TreeNode> expected;
    for (std::uint8_t level = 0; level <= tree.radices().size(); ++level)
      for (std::uint32_t index = 0; index < tree.slice_count() / tree.width(level); ++index) {
        TreeNode node{level, index};
        if (complete(node) && (node == tree.root() || !complete(parent_of(tree, node))))
          expected.push_back(node);
      }
    auto cover = tree.cover(owned);
    std::uint32_t end = 0;
    for (TreeNode node : cover) {
      EXPECT_GE(tree.first_slice(node), end);
      end = tree.first_slice(node) + tree.width(node.level);
    }
    std::sort(cover.begin(), cover.end());
    ASSERT_EQ(cover, expected);
  }
}

}  // namespace
}  // namespace gpunode::collective
