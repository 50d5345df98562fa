#include "actors/compute/partial_store.hpp"

#include <gtest/gtest.h>

namespace gpunode::compute {
namespace {

using collective::DataFingerprint;
using collective::Tree;
using collective::TreeNode;

using Slices = std::vector<std::uint32_t>;
using Nodes = std::vector<TreeNode>;

SharedSum sum_of(float value) {
  return std::make_shared<Sum>(Sum{std::make_shared<std::vector<float>>(1, value)});
}

PartialStore store_of(std::uint32_t slices) {
  return {Tree::of_slices(slices), [](std::span<const SharedSum> children) -> Result<SharedSum> {
            float sum = 0;
            for (const SharedSum& child : children) sum += child->host->front();
            return sum_of(sum);
          }};
}

// Slice i is worth 2^i and was fed i + 1 samples.
void compute(PartialStore& store, const SumTask& task) {
  float sum = 0;
  DataFingerprint data_fingerprint = task.kept_fingerprint;
  for (const auto& kept : task.kept_sums) sum += kept->host->front();
  for (std::uint32_t slice : task.slices) {
    sum += static_cast<float>(1u << slice);
    data_fingerprint += DataFingerprint{{0, slice}, slice + 1};
  }
  store.keep(task, sum_of(sum), data_fingerprint);
}

// Computes all that is wanted; the slices of each block in turn.
std::vector<Slices> finish(PartialStore& store, std::size_t capacity, std::size_t workers) {
  std::vector<Slices> blocks;
  while (!store.missing().empty()) {
    Slices& block = blocks.emplace_back();
    for (const SumTask& task : store.next(capacity, workers)) {
      block.insert(block.end(), task.slices.begin(), task.slices.end());
      compute(store, task);
    }
  }
  EXPECT_TRUE(store.next(capacity, workers).empty());
  return blocks;
}

TEST(PartialStore, asks_for_the_slices_of_a_wanted_node_at_once) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{1, 0}});
  EXPECT_EQ(store.missing(), (Slices{0, 1}));
  EXPECT_TRUE(store.take_complete()->empty());
  const auto tasks = store.next(4, 2);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].node, (TreeNode{1, 0}));
  EXPECT_EQ(tasks[0].given(), (Nodes{{0, 0}, {0, 1}}));
  EXPECT_TRUE(tasks[0].wanted);
  compute(store, tasks[0]);
  EXPECT_TRUE(store.missing().empty());
  EXPECT_TRUE(store.take_complete()->empty()) << "its ranges were told";
}

TEST(PartialStore, returns_what_it_kept_whole_when_another_plan_wants_it) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{1, 0}});
  finish(store, 4, 1);
  store.want({{1, 0}, {0, 3}});
  const auto sums = *store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].node, (TreeNode{1, 0}));
  EXPECT_EQ(sums[0].sum->host->front(), 3);
  EXPECT_EQ(sums[0].data_fingerprint, (DataFingerprint{{0, 1}, 3}));
  EXPECT_TRUE(store.take_complete()->empty());
  EXPECT_EQ(store.missing(), Slices{3});
}

TEST(PartialStore, keeps_its_sums_when_it_takes_over_the_slices_of_another) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{1, 0}});
  finish(store, 4, 1);
  store.want({{2, 0}});
  EXPECT_EQ(store.missing(), (Slices{2, 3}));
  const auto tasks = store.next(2, 2);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].given(), (Nodes{{1, 0}, {0, 2}, {0, 3}}));
  ASSERT_EQ(tasks[0].kept_sums.size(), 1u);
  EXPECT_EQ(tasks[0].kept_sums[0]->host->front(), 3);
  compute(store, tasks[0]);
  store.want({{2, 0}});
  const auto sums = *store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].sum->host->front(), 15);
  EXPECT_EQ(sums[0].data_fingerprint, (DataFingerprint{{0, 6}, 10}));
}

TEST(PartialStore, merges_kept_sums_that_make_up_a_wanted_node) {
  PartialStore store = store_of(4);
  store.begin(1);
  store.want({{0, 0}, {0, 1}});
  finish(store, 4, 1);
  store.want({{1, 0}});
  EXPECT_TRUE(store.missing().empty());
  const auto sums = *store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].sum->host->front(), 3);
}

TEST(PartialStore, computes_the_largest_node_first_and_fills_lanes_with_the_others) {
  PartialStore store = store_of(8);
  store.begin(1);
  store.want({{0, 6}, {2, 0}, {1, 2}});
  EXPECT_EQ(finish(store, 8, 2), (std::vector<Slices>{{0, 1, 2, 3}, {4, 5}, {6}}));
  store.discard();
  EXPECT_EQ(finish(store, 8, 4), (std::vector<Slices>{{0, 1, 2, 3}, {4, 5, 6}}));
  store.discard();
  EXPECT_EQ(finish(store, 8, 8), (std::vector<Slices>{{0, 1, 2, 3, 4, 5, 6}}));
  store.discard();
  EXPECT_EQ(finish(store, 5, 8), (std::vector<Slices>{{0, 1, 2, 3}, {4, 5, 6}}));
}

TEST(PartialStore, computes_the_parts_of_a_node_that_is_too_large_and_completes_it_with_the_last) {
  PartialStore store = store_of(8);
  store.begin(1);
  store.want({{3, 0}});
  const auto first = store.next(2, 2);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].node, (TreeNode{1, 0}));
  EXPECT_FALSE(first[0].wanted);
  compute(store, first[0]);
  EXPECT_EQ(finish(store, 2, 2), (std::vector<Slices>{{2, 3}, {4, 5}, {6, 7}}));
  store.want({{3, 0}});
  const auto sums = *store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].sum->host->front(), 255);
  EXPECT_EQ(sums[0].data_fingerprint.sample_count, 36u);
}

TEST(PartialStore, gives_two_takers_at_once_different_parts_of_a_node) {
  PartialStore store = store_of(8);
  store.begin(1);
  store.want({{3, 0}});
  const auto fast = store.next(4, 1), slow = store.next(2, 1), again = store.next(4, 1);
  ASSERT_EQ(fast.size() + slow.size() + again.size(), 3u);
  EXPECT_EQ(fast[0].node, (TreeNode{2, 0}));
  EXPECT_EQ(slow[0].node, (TreeNode{1, 2}));
  EXPECT_EQ(again[0].node, (TreeNode{1, 3})) << "not of the node that has a part under way";
  EXPECT_TRUE(store.next(8, 1).empty()) << "all is under way";
  for (const auto* taken : {&again, &fast, &slow}) {
    EXPECT_TRUE(store.take_complete()->empty());
    compute(store, taken->front());
  }
  const auto sums = *store.take_complete();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].sum->host->front(), 255);
}

TEST(PartialStore, forgets_everything_with_the_step_or_when_told) {
  PartialStore store = store_of(2);
  store.begin(1);
  store.want({{1, 0}});
  finish(store, 1, 1);
  store.discard();
  EXPECT_EQ(store.missing().size(), 2u);
  finish(store, 1, 1);
  store.begin(2);
  store.want({{1, 0}});
  EXPECT_EQ(store.missing().size(), 2u);
}

}  // namespace
}  // namespace gpunode::compute
