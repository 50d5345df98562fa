#include "runtime/collective/chunk_places.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

using Use = ChunkPlaces::Use;
constexpr Use kResultOfOne{1, std::nullopt};
constexpr Use kPartialOfTwo{2, TreeNode{1, 1}};

class ChunkPlacesTest : public ::testing::Test {
 protected:
  const std::byte* place_of(std::uint32_t chunk) const {
    return reinterpret_cast<const std::byte*>(values_->data() + kLayout.first(chunk));
  }
  std::shared_ptr<Values> values_ = std::make_shared<Values>(10);
  std::shared_ptr<ChunkPlaces> places_ = std::make_shared<ChunkPlaces>(
      values_, kLayout, std::vector<std::optional<Use>>{kResultOfOne, kPartialOfTwo, std::nullopt});
};

TEST_F(ChunkPlacesTest, are_lent_for_their_use_and_whole_chunks_alone) {
  EXPECT_TRUE(places_->lend(0, {2, std::nullopt}, 16).view.empty());
  EXPECT_TRUE(places_->lend(0, {1, TreeNode{1, 1}}, 16).view.empty());
  EXPECT_TRUE(places_->lend(1, {2, TreeNode{1, 0}}, 16).view.empty());
  EXPECT_TRUE(places_->lend(0, kResultOfOne, 12).view.empty());
  EXPECT_TRUE(places_->lend(0, kResultOfOne, 20).view.empty());
  EXPECT_TRUE(places_->lend(2, kResultOfOne, 8).view.empty());
  EXPECT_TRUE(places_->lend(3, kResultOfOne, 16).view.empty());
  EXPECT_TRUE(places_->lend(0xffff'ffff, kResultOfOne, 16).view.empty());
  const WritableBytes result = places_->lend(0, kResultOfOne, 16);
  EXPECT_EQ(result.view.data(), place_of(0));
  EXPECT_EQ(result.view.size(), 16u);
  EXPECT_EQ(places_->lend(1, kPartialOfTwo, 16).view.data(), place_of(1));
}

TEST_F(ChunkPlacesTest, are_lent_once_until_the_loan_ends) {
  WritableBytes first = places_->lend(0, kResultOfOne, 16);
  EXPECT_TRUE(places_->lend(0, kResultOfOne, 16).view.empty());
  first = {};
  EXPECT_FALSE(places_->lend(0, kResultOfOne, 16).view.empty());
}

TEST_F(ChunkPlacesTest, that_are_lent_are_taken_by_nobody_else_until_the_loan_ends) {
  const std::byte elsewhere{};
  WritableBytes loan = places_->lend(0, kResultOfOne, 16);
  EXPECT_FALSE(places_->close(0, kResultOfOne, &elsewhere));
  EXPECT_TRUE(places_->close(1, {1, TreeNode{1, 0}}, &elsewhere));  // not what the place is for
  loan = {};
  EXPECT_TRUE(places_->close(0, kResultOfOne, &elsewhere));
}

TEST_F(ChunkPlacesTest, that_are_closed_are_never_lent_again) {
  const std::byte elsewhere{};
  WritableBytes loan = places_->lend(0, kResultOfOne, 16);
  EXPECT_TRUE(places_->close(0, kResultOfOne, place_of(0)));
  EXPECT_TRUE(places_->lend(0, kResultOfOne, 16).view.empty());
  loan = {};
  EXPECT_TRUE(places_->lend(0, kResultOfOne, 16).view.empty());
  EXPECT_TRUE(places_->close(1, kPartialOfTwo, &elsewhere));
  EXPECT_TRUE(places_->lend(1, kPartialOfTwo, 16).view.empty());
}

TEST_F(ChunkPlacesTest, keep_the_vector_as_long_as_a_loan) {
  WritableBytes loan = places_->lend(0, kResultOfOne, 16);
  const std::weak_ptr<Values> vector = values_;
  values_.reset();
  places_.reset();
  EXPECT_FALSE(vector.expired());
  std::ranges::fill(loan.view, std::byte{1});
  loan = {};
  EXPECT_TRUE(vector.expired());
}

// A connection that breaks in the midst of a result that was read to its place.
TEST(AllReducePlaces, of_half_a_message_spoil_nothing) {
  Group group = two_members();
  group.compute_all();
  WritableBytes half = group[0].places()->lend(1, {1, std::nullopt}, 16);
  ASSERT_FALSE(half.view.empty());
  Rng rng(1);
  group.run(rng, {});
  EXPECT_FALSE(group[0].held());  // it came elsewhere while the place was still written to
  EXPECT_EQ(group[0].dropped_messages(), 1u);
  std::ranges::fill(half.view.first(8), std::byte{7});
  half = {};
  group.reconnect(0, 1);
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

TEST(AllReducePlaces, are_closed_once_the_result_is_held) {
  Group group = two_members();
  group.compute_all();
  Rng rng(1);
  group.run(rng, {.placed = 0.5});
  ASSERT_TRUE(group.all_committed());
  for (std::uint32_t chunk = 0; chunk < kLayout.chunk_count(); ++chunk)
    for (std::uint16_t rank : {0, 1})
      for (std::optional<TreeNode> node : {std::optional<TreeNode>(), std::optional(TreeNode{1, 0}),
                                           std::optional(TreeNode{1, 1})})
        EXPECT_TRUE(group[0].places()->lend(chunk, {rank, node}, 16).view.empty());
}

}  // namespace
}  // namespace gpunode::collective
