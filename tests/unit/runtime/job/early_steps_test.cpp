#include "runtime/job/early_steps.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

const view::ViewName kFive{{}, 5}, kSix{{}, 6}, kSeven{{}, 7};

StepMessage partial(std::uint64_t step, std::size_t bytes = 0) {
  return {step, {}, collective::PartialChunk{0, {}, {}, SharedBytes::from(Bytes(bytes))}};
}

std::vector<std::uint64_t> steps_of(const EarlySteps::List& list) {
  std::vector<std::uint64_t> steps;
  for (const auto& [from, message] : list) steps.push_back(message.step);
  return steps;
}

TEST(EarlySteps, what_came_early_is_given_once_in_order_with_its_sender) {
  EarlySteps early(100);
  early.keep(node(2), partial(4));
  early.keep(node(3), partial(5));
  const EarlySteps::List taken = early.take();
  EXPECT_EQ(steps_of(taken), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(taken[1].first, node(3));
  EXPECT_TRUE(early.take().empty());
}

TEST(EarlySteps, beyond_its_bytes_nothing_is_kept) {
  EarlySteps early(100);
  early.keep(node(2), partial(4, 60));
  early.keep(node(2), partial(5, 41));
  early.keep(node(2), partial(6, 40));
  EXPECT_EQ(steps_of(early.take()), (std::vector<std::uint64_t>{4, 6}));
  early.keep(node(2), partial(7, 100));
  EXPECT_EQ(early.take().size(), 1u) << "what was taken makes room";
}

TEST(EarlySteps, what_came_of_a_view_ahead_is_there_when_that_view_is) {
  EarlySteps early(100);
  early.keep_early(kSix, node(2), partial(4));
  EXPECT_TRUE(early.take().empty());
  early.on_view(kSix);
  EXPECT_EQ(steps_of(early.take()), std::vector<std::uint64_t>{4});
}

TEST(EarlySteps, a_view_makes_void_what_came_of_the_one_before) {
  EarlySteps early(100);
  early.keep(node(2), partial(4));
  early.on_view(kSix);
  EXPECT_TRUE(early.take().empty());
}

TEST(EarlySteps, another_view_than_the_one_ahead_makes_void_what_came_of_that) {
  EarlySteps early(100);
  early.keep_early(kSix, node(2), partial(4));
  early.on_view(kFive);
  EXPECT_TRUE(early.take().empty());
  early.on_view(kSix);
  EXPECT_TRUE(early.take().empty());
}

TEST(EarlySteps, the_newest_view_ahead_replaces_older_ones_and_bars_them) {
  EarlySteps early(100);
  early.keep_early(kSix, node(2), partial(4, 100));
  early.keep_early(kSeven, node(3), partial(5, 100));
  early.keep_early(kSix, node(2), partial(6));
  early.on_view(kSeven);
  EXPECT_EQ(steps_of(early.take()), std::vector<std::uint64_t>{5});
}

TEST(EarlySteps, only_chunks_have_bytes_of_gradient) {
  EXPECT_EQ(payload_bytes(partial(1, 12).message), 12u);
  EXPECT_EQ(payload_bytes(collective::ResultChunk{0, {}, SharedBytes::from(Bytes(5))}), 5u);
  EXPECT_EQ(payload_bytes(collective::Need{}), 0u);
}

}  // namespace
}  // namespace gpunode::job
