#include "runtime/collective/sum_program.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

Values run(const SumProgram& program, const std::vector<Values>& given,
           const AddFn& add = plain_add) {
  std::vector<const float*> inputs;
  for (const Values& values : given) inputs.push_back(values.data());
  Values out(given[0].size()), scratch;
  program.run(inputs, out.data(), out.size(), add, scratch);
  return out;
}

TEST(SumProgram, needs_the_target_to_be_covered) {
  Tree tree = Tree::of_slices(4);
  std::vector<TreeNode> given{{1, 0}, {0, 2}};
  EXPECT_FALSE(SumProgram::of(tree, tree.root(), given));
  EXPECT_FALSE(SumProgram::of(tree, {9, 0}, given));
  given.push_back({0, 3});
  EXPECT_TRUE(SumProgram::of(tree, tree.root(), given));
}

TEST(SumProgram, copies_a_target_that_was_given) {
  Tree tree = Tree::of_slices(4);
  std::vector<TreeNode> given{{0, 0}, {1, 1}};
  auto program = SumProgram::of(tree, {1, 1}, given);
  EXPECT_EQ(run(*program, {{1, 2}, {3, 4}}), (Values{3, 4}));
}

// A random cut of the tree: nodes are split from the root down.
std::vector<TreeNode> random_cut(Rng& rng, const Tree& tree) {
  std::vector<TreeNode> cut, open{tree.root()};
  while (!open.empty()) {
    TreeNode node = open.back();
    open.pop_back();
    auto children = tree.children(node);
    if (children.empty() || rng.chance(0.4))
      cut.push_back(node);
    else
      open.insert(open.end(), children.begin(), children.end());
  }
  return cut;
}

// One pass an operand: where the output is also the third operand, this goes wrong.
void add_in_passes(float* out, std::span<const float* const> inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = inputs[0][i] + inputs[1][i];
  for (std::size_t k = 2; k < inputs.size(); ++k)
    for (std::size_t i = 0; i < count; ++i) out[i] += inputs[k][i];
}

TEST(SumProgram, gives_the_bits_of_the_tree_whatever_was_given_and_however_it_is_added) {
  Rng rng(3);
  std::vector<std::vector<std::uint32_t>> shapes{{2, 2, 2, 2}, {3, 2, 2}, {2, 3, 3}, {4, 3},
                                                 {11},         {2, 5, 2}, {5, 3, 2}, {3, 3, 2, 2}};
  for (int round = 0; round < 600; ++round) {
    Tree tree = *Tree::of_radices(shapes[rng.below(shapes.size())]);
    std::size_t length = round % 50 == 0 ? 4096 * 2 + 17 : 13;
    auto slices = random_slices(rng, tree.slice_count(), length, rng.chance(0.5));
    std::vector<TreeNode> given = random_cut(rng, tree);
    std::vector<Values> values;
    for (TreeNode node : given) values.push_back(tree_sum(tree, node, slices));
    auto program = SumProgram::of(tree, tree.root(), given);
    ASSERT_TRUE(program);
    Values expected = tree_sum(tree, tree.root(), slices);
    ASSERT_TRUE(same_bits(run(*program, values, plain_add), expected));
    ASSERT_TRUE(same_bits(run(*program, values, add_in_passes), expected));
  }
}

TEST(SumProgram, gives_the_same_bits_where_an_input_lies_in_the_outputs_place) {
  Rng rng(4);
  std::vector<std::vector<std::uint32_t>> shapes{{2, 2}, {3, 2, 2}, {4, 3}, {11}, {5, 3, 2}};
  std::size_t tried = 0;
  for (int round = 0; round < 300; ++round) {
    Tree tree = *Tree::of_radices(shapes[rng.below(shapes.size())]);
    const std::size_t length = round % 50 == 0 ? 4096 * 2 + 17 : 13;
    auto slices = random_slices(rng, tree.slice_count(), length, true);
    std::vector<TreeNode> given = random_cut(rng, tree);
    auto program = SumProgram::of(tree, tree.root(), given);
    const Values expected = tree_sum(tree, tree.root(), slices);
    for (std::size_t input = 0; input < given.size(); ++input) {
      if (!program->may_be_output(input)) continue;
      ++tried;
      std::vector<Values> values;
      for (TreeNode node : given) values.push_back(tree_sum(tree, node, slices));
      std::vector<const float*> inputs;
      for (const Values& one : values) inputs.push_back(one.data());
      Values scratch;
      program->run(inputs, values[input].data(), length, add_in_passes, scratch);
      ASSERT_TRUE(same_bits(values[input], expected));
    }
  }
  EXPECT_GT(tried, 300u);
}

}  // namespace
}  // namespace gpunode::collective
