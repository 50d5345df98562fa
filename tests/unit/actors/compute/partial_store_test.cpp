#include "actors/compute/partial_store.hpp"

#include <gtest/gtest.h>

namespace gpunode::compute {
namespace {

using collective::Fed;
using collective::Tree;
using collective::TreeNode;

void add(float* out, std::span<const float* const> inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = inputs[0][i];
    for (std::size_t k = 1; k < inputs.size(); ++k) sum += inputs[k][i];
    out[i] = sum;
  }
}

PartialStore store_of(std::uint32_t slices) {
  return {Tree::of_slices(slices), add, [] { return std::make_shared<std::vector<float>>(1); }};
}

collective::SharedFloats value(float x) {
  return std::make_shared<const std::vector<float>>(1, x);
}

TEST(PartialStore, sums_a_wanted_node_when_its_last_slice_is_there_and_returns_it_once) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{1, 0}});
  EXPECT_EQ(store.missing(), (std::vector<std::uint32_t>{0, 1}));
  store.add(0, value(1), Fed{{0, 5}, 3});
  EXPECT_TRUE(store.take_complete().empty());
  store.add(1, value(2), Fed{{0, 6}, 4});
  auto sums = store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].node, (TreeNode{1, 0}));
  EXPECT_EQ((*sums[0].sum)[0], 3);
  EXPECT_EQ(sums[0].fed, (Fed{{0, 11}, 7}));
  EXPECT_TRUE(store.take_complete().empty());
  EXPECT_TRUE(store.missing().empty());
}

TEST(PartialStore, keeps_its_sums_when_it_takes_over_the_slices_of_another) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{1, 0}});
  store.add(0, value(1), {});
  store.add(1, value(2), {});
  ASSERT_EQ(store.take_complete().size(), 1u);
  store.want({{2, 0}});
  EXPECT_EQ(store.missing(), (std::vector<std::uint32_t>{2, 3}));
  store.add(2, value(4), {});
  store.add(3, value(8), {});
  auto sums = store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ((*sums[0].sum)[0], 15);
}

TEST(PartialStore, asks_for_the_largest_node_first) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{0, 3}, {1, 0}});
  EXPECT_EQ(store.missing(), (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(PartialStore, forgets_everything_with_the_step_or_when_told) {
  PartialStore store = store_of(2);
  store.begin(1);
  store.want({{1, 0}});
  store.add(0, value(1), {});
  store.discard();
  EXPECT_EQ(store.missing().size(), 2u);
  store.add(0, value(1), {});
  store.begin(2);
  store.want({{1, 0}});
  EXPECT_EQ(store.missing().size(), 2u);
}

}  // namespace
}  // namespace gpunode::compute
