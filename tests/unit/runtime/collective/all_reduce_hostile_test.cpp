// What an exchange does with messages that no honest member sends, and with honest members that
// hold different results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;

TEST(AllReduce, a_done_with_another_digest_is_a_disagreement) {
  Group group = two_members();
  group.deliver(1, 0, Done{{1, 2}, {}, {}});
  EXPECT_FALSE(group[0].disagreed());
  group.compute_all();
  Rng rng(1);
  group.run(rng, {});
  EXPECT_TRUE(group[0].held());
  EXPECT_TRUE(group[0].disagreed());
  EXPECT_FALSE(group[0].committed());
}

TEST(AllReduce, two_peers_that_disagree_are_noticed_before_the_step_is_held) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, balanced_plan(tree, 3), 3, kLayout, random_slices(rng, 4, 10, true));
  group.deliver(1, 0, Done{{1, 2}, {}, {}});
  group.deliver(2, 0, Done{{1, 3}, {}, {}});
  EXPECT_TRUE(group[0].disagreed());
}

TEST(AllReduce, owners_that_saw_other_samples_are_noticed) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, balanced_plan(tree, 3), 3, kLayout, random_slices(rng, 4, 10, true));
  group.deliver(1, 0, ResultChunk{1, {{0, 1}, 8}, floats({1, 2, 3, 4})});
  group.deliver(2, 0, ResultChunk{2, {{0, 1}, 9}, floats({1, 2})});
  EXPECT_TRUE(group[0].disagreed());
}

struct Bad {
  const char* why;
  std::uint16_t from;
  ExchangeMessage message;
};

TEST(AllReduce, drops_and_counts_what_cannot_be_right) {
  DataFingerprint data_fingerprint = fed_of(Tree::of_slices(4), {1, 1});
  SharedBytes four = floats({1, 2, 3, 4}), three = floats({1, 2, 3});
  std::vector<Bad> all{
      {"own rank", 0, PartialChunk{0, {1, 1}, data_fingerprint, four}},
      {"no such rank", 2, PartialChunk{0, {1, 1}, data_fingerprint, four}},
      {"no such rank", 65535, Done{}},
      {"no such chunk", 1, PartialChunk{3, {1, 1}, data_fingerprint, four}},
      {"no such chunk", 1, PartialChunk{4294967295u, {1, 1}, data_fingerprint, four}},
      {"not the owner", 1, PartialChunk{1, {1, 1}, data_fingerprint, four}},
      {"node of mine", 1, PartialChunk{0, {1, 0}, data_fingerprint, four}},
      {"node below the cover", 1, PartialChunk{0, {0, 3}, data_fingerprint, four}},
      {"node above the cover", 1, PartialChunk{0, {2, 0}, data_fingerprint, four}},
      {"no such node", 1, PartialChunk{0, {77, 123456}, data_fingerprint, four}},
      {"too short", 1, PartialChunk{0, {1, 1}, data_fingerprint, three}},
      {"too long", 1, PartialChunk{2, {1, 1}, data_fingerprint, four}},
      {"empty", 1, PartialChunk{0, {1, 1}, data_fingerprint, {}}},
      {"result of my chunk", 1, ResultChunk{0, data_fingerprint, four}},
      {"result of no chunk", 1, ResultChunk{5, data_fingerprint, four}},
      {"short result", 1, ResultChunk{1, data_fingerprint, three}},
      {"need of no chunk", 1, Need{{}, {3}, false}},
      {"need of a result that I do not own", 1, Need{{}, {1}, false}},
      {"need of a partial that it does not own", 1, Need{{0}, {}, false}},
      {"need of one chunk over and over", 1, Need{{1, 1, 1}, {}, false}},
      {"need out of order", 1, Need{{}, {2, 0}, false}},
  };
  Group group = two_members();
  group.compute(0, {1, 0});
  group.wire.clear();
  std::uint64_t dropped = 0;
  for (const Bad& bad : all) {
    group.deliver(bad.from, 0, bad.message);
    EXPECT_EQ(group[0].dropped_messages(), ++dropped) << bad.why;
    EXPECT_THAT(group.wire, IsEmpty()) << bad.why;
  }
  // None of it left a trace.
  group.compute(1, {1, 1});
  Rng rng(1);
  group.run(rng, {});
  group.tick(milliseconds(500));
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

TEST(AllReduce, takes_a_partial_only_from_the_member_that_owes_it) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, SlicePlan{{0, 1, 2, 2}}, 3, kLayout, random_slices(rng, 4, 10, true));
  group.deliver(2, 0, PartialChunk{0, {0, 1}, fed_of(tree, {0, 1}), floats({1, 2, 3, 4})});
  EXPECT_EQ(group[0].dropped_messages(), 1u);
  group.compute_all();
  group.run(rng, {});
  ASSERT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

TEST(AllReduce, a_second_and_other_value_is_dropped_and_the_first_stands) {
  Group group = two_members();
  group.compute(1, {1, 1});
  auto sent = group.wire;
  group.wire.clear();
  for (auto& flying : sent) group.deliver(1, 0, flying.send.message);
  PartialChunk other = std::get<PartialChunk>(sent[0].send.message);
  group.deliver(1, 0, other);
  EXPECT_EQ(group[0].dropped_messages(), 0u);
  other.payload = floats({9, 9, 9, 9});
  group.deliver(1, 0, other);
  EXPECT_EQ(group[0].dropped_messages(), 1u);
  other.data_fingerprint.sample_count += 1;
  group.deliver(1, 0, other);
  EXPECT_EQ(group[0].dropped_messages(), 2u);

  group.compute(0, {1, 0});
  Rng rng(1);
  group.run(rng, {});
  ASSERT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
  group.deliver(1, 0, ResultChunk{1, group[0].data_fingerprint(), floats({9, 9, 9, 9})});
  EXPECT_EQ(group[0].dropped_messages(), 3u);
  Done second = group[1].done();
  second.times.compute.compute_us += 1;
  group.deliver(1, 0, second);
  EXPECT_EQ(group[0].dropped_messages(), 4u);
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

}  // namespace
}  // namespace gpunode::collective
