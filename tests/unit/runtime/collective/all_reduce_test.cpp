#include "runtime/collective/all_reduce.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/collective/result_digest.hpp"
#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <class T>
std::vector<T> of_kind(const std::vector<Group::Flying>& wire) {
  std::vector<T> found;
  for (const auto& flying : wire)
    if (auto* message = std::get_if<T>(&flying.send.message)) found.push_back(*message);
  return found;
}

TEST(ChunkLayout, depends_on_the_length_alone) {
  EXPECT_EQ(ChunkLayout::of(100).chunk_elements, 16384u);
  EXPECT_EQ(ChunkLayout::of(1 << 18).chunk_elements, 32768u);
  EXPECT_EQ(ChunkLayout::of((1 << 20) - 1).chunk_elements, 65536u);
  EXPECT_EQ(ChunkLayout::of(1 << 20).chunk_elements, 131072u);
  EXPECT_EQ(ChunkLayout::of(2 << 20).chunk_elements, 262144u);
  EXPECT_EQ(ChunkLayout::of(std::uint64_t{1} << 30).chunk_elements, 262144u);
}

TEST(ChunkLayout, chunks_cover_the_vector_without_gaps) {
  for (std::uint64_t length : {0ull, 1ull, 16384ull, 16385ull, 300'000ull, 5'000'000ull}) {
    ChunkLayout layout = ChunkLayout::of(length);
    std::uint64_t end = 0;
    for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      EXPECT_EQ(layout.first(chunk), end);
      end += layout.size(chunk);
    }
    EXPECT_EQ(end, length);
    EXPECT_GE(layout.chunk_count(), 1u);
  }
}

TEST(AllReduce, of_one_member_commits_without_a_message_or_a_copy) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, balanced_plan(tree, 1), 1, kLayout, random_slices(rng, 4, 10, true));
  std::vector<SendTo> out;
  auto sum = std::make_shared<const Values>(group.expected());
  EXPECT_FALSE(group[0].held());
  group[0].on_partial(group.now(), tree.root(), sum, fed_of(tree, tree.root()), out);
  EXPECT_THAT(out, IsEmpty());
  EXPECT_TRUE(group[0].held());
  EXPECT_TRUE(group[0].committed());
  EXPECT_EQ(group[0].result(), sum);
}

TEST(AllReduce, sums_an_empty_vector) {
  Tree tree = Tree::of_slices(2);
  Group group(tree, balanced_plan(tree, 2), 2, ChunkLayout::of(0), {{}, {}});
  Rng rng(1);
  group.compute_all();
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
  EXPECT_EQ(group[1].result().size(), 0u);
}

TEST(AllReduce, of_scattered_slices_sums_by_the_tree) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, SlicePlan{{0, 1, 1, 0}}, 2, kLayout, random_slices(rng, 4, 10, true));
  group.compute_all();
  group.run(rng, {});
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

TEST(AllReduce, is_held_with_every_result_and_committed_with_every_done) {
  Group group = two_members();
  group.compute_all();
  std::vector<Group::Flying> dones;
  while (!group.wire.empty()) {
    auto flying = group.wire.front();
    group.wire.erase(group.wire.begin());
    if (std::holds_alternative<Done>(flying.send.message)) {
      dones.push_back(flying);
      continue;
    }
    EXPECT_FALSE(group[0].held() && group[1].held());
    group.deliver(flying.from, flying.send.rank, flying.send.message);
  }
  ASSERT_TRUE(group[0].held() && group[1].held());
  EXPECT_FALSE(group[0].committed() || group[1].committed());
  EXPECT_THAT(group[0].waiting_for(), ElementsAre(1));
  ASSERT_EQ(dones.size(), 2u);
  for (auto& done : dones) group.deliver(done.from, done.send.rank, done.send.message);
  EXPECT_TRUE(group.all_committed());
  EXPECT_THAT(group[0].waiting_for(), IsEmpty());
}

TEST(AllReduce, sends_results_before_partials_and_nothing_twice) {
  Group group = two_members();
  group.compute(1, {1, 1});
  // Rank 1 owns chunk 1 only; two partials leave for chunks 0 and 2.
  EXPECT_EQ(of_kind<PartialChunk>(group.wire).size(), 2u);
  auto sent = group.wire;
  group.wire.clear();
  for (auto& flying : sent) group.deliver(1, 0, flying.send.message);
  EXPECT_THAT(group.wire, IsEmpty());
  group.compute(0, {1, 0});
  ASSERT_EQ(group.wire.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<ResultChunk>(group.wire[0].send.message));
  EXPECT_TRUE(std::holds_alternative<ResultChunk>(group.wire[1].send.message));
  EXPECT_TRUE(std::holds_alternative<PartialChunk>(group.wire[2].send.message));
}

TEST(AllReduce, sends_a_chunk_as_soon_as_its_range_is_final) {
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    Tree tree = Tree::of_slices(4);
    Group group(tree, balanced_plan(tree, 2), 2, kLayout, random_slices(rng, 4, 10, true));
    auto sum = std::make_shared<Values>(10, -7.0f);  // what is not final yet
    const Values right = tree_sum(tree, {1, 1}, group.slices());
    std::size_t told = 0;
    std::uint64_t end = 10;
    while (end > 0) {
      std::uint64_t first = rng.below(end);
      std::copy(right.begin() + first, right.begin() + end, sum->begin() + first);
      std::vector<SendTo> out;
      group[1].on_partial_range(group.now(), {1, 1}, sum, fed_of(tree, {1, 1}), first, end - first,
                                out);
      for (const SendTo& send : out) {
        auto& chunk = std::get<PartialChunk>(send.message);
        EXPECT_GE(kLayout.first(chunk.chunk), first);
        ++told;
        group.deliver(1, send.rank, send.message);
      }
      end = first;
    }
    EXPECT_EQ(told, 2u);  // chunks 0 and 2 belong to rank 0
    group.compute(0, {1, 0});
    group.run(rng, {});
    ASSERT_TRUE(group.all_committed());
    EXPECT_EQ(*group[0].result(), group.expected());
    EXPECT_EQ(*group[1].result(), group.expected());
  }
}

TEST(AllReduce, moves_the_owners_with_the_rotation) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, balanced_plan(tree, 2), 2, kLayout, random_slices(rng, 4, 10, true), 1);
  group.compute(1, {1, 1});
  auto partials = of_kind<PartialChunk>(group.wire);
  ASSERT_EQ(partials.size(), 1u);
  EXPECT_EQ(partials[0].chunk, 1u);
}

TEST(AllReduce, sends_partials_and_results_without_a_copy) {
  Tree tree = Tree::of_slices(2);
  AllReduce::Options options;
  options.member_count = 2;
  options.tree = tree;
  options.plan = balanced_plan(tree, 2);
  options.layout = kLayout;
  options.add = plain_add;
  options.result_buffer = std::make_shared<Values>();
  auto buffer = options.result_buffer;
  AllReduce exchange(options, Time{});
  std::vector<SendTo> out;
  auto sum = std::make_shared<const Values>(10, 1.0f);
  exchange.on_partial(Time{}, {0, 0}, sum, {}, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(static_cast<const void*>(std::get<PartialChunk>(out[0].message).payload.view.data()),
            sum->data() + 4);
  out.clear();
  exchange.on_message(Time{}, 1, PartialChunk{2, {0, 1}, {}, floats({1, 2})}, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(static_cast<const void*>(std::get<ResultChunk>(out[0].message).payload.view.data()),
            buffer->data() + 8);
}

TEST(AllReduce, lets_members_without_slices_take_part) {
  Rng rng(1);
  Tree tree = Tree::of_slices(2);
  Group group(tree, balanced_plan(tree, 4), 4, kLayout, random_slices(rng, 2, 10, true));
  EXPECT_THAT(group[3].own_cover(), IsEmpty());
  group.compute_all();
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[3].result(), group.expected()));
}

TEST(AllReduce, passes_infinities_and_nan_through) {
  Tree tree = Tree::of_slices(4);
  float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::vector<Values> slices(4, Values(10, 1.0f));
  slices[0][0] = inf;
  slices[3][0] = -inf;
  slices[1][5] = nan;
  slices[2][9] = inf;
  Group group(tree, balanced_plan(tree, 3), 3, kLayout, slices);
  Rng rng(1);
  group.compute_all();
  group.run(rng, {});
  ASSERT_TRUE(group.all_committed());
  const Values& result = *group[2].result();
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_TRUE(std::isnan(result[5]));
  EXPECT_EQ(result[9], inf);
  EXPECT_EQ(result[1], 4.0f);
}

TEST(AllReduce, converges_under_loss_doubling_and_disorder) {
  std::uint64_t lossy_rounds = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    std::uint32_t slice_count = 1 + static_cast<std::uint32_t>(rng.below(12));
    std::uint16_t members = static_cast<std::uint16_t>(1 + rng.below(5));
    Tree tree = Tree::of_slices(slice_count);
    std::size_t length = 1 + rng.below(40);
    Group group(tree, scattered_plan(rng, slice_count, members), members,
                {length, 1 + rng.below(9)}, random_slices(rng, slice_count, length, true),
                static_cast<std::uint32_t>(rng.below(4)));
    // Partials are computed at random moments between deliveries.
    std::vector<std::pair<std::uint16_t, TreeNode>> work;
    for (std::uint16_t rank = 0; rank < members; ++rank)
      for (TreeNode node : group[rank].own_cover()) work.push_back({rank, node});
    Faults faults{.loss = 0.4, .doubling = 0.3, .shuffled = true, .shifted = true, .placed = 0.5};
    int rounds = 0;
    while (!group.all_committed() && rounds < 400) {
      if (!work.empty()) {
        std::swap(work[rng.below(work.size())], work.back());
        group.compute(work.back().first, work.back().second);
        work.pop_back();
      }
      group.run(rng, faults);
      if (!group.all_committed()) group.tick(milliseconds(700));
      ++rounds;
    }
    ASSERT_TRUE(group.all_committed()) << "seed " << seed;
    lossy_rounds += rounds;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      ASSERT_TRUE(same_bits(*group[rank].result(), group.expected())) << "seed " << seed;
      ASSERT_EQ(group[rank].dropped_messages(), 0u) << "seed " << seed;
      ASSERT_FALSE(group[rank].disagreed());
    }
  }
  EXPECT_GT(lossy_rounds, 2000u);  // the faults did strike
}

TEST(AllReduce, asks_for_what_is_missing_after_silence_and_backs_off) {
  Group group = two_members();
  group.tick(milliseconds(499));
  EXPECT_THAT(group.wire, IsEmpty());
  group.tick(milliseconds(1));
  auto needs = of_kind<Need>(group.wire);
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_THAT(needs[0].partial_chunks, ElementsAre(0, 2));
  EXPECT_THAT(needs[0].result_chunks, ElementsAre(1));
  group.wire.clear();
  group.tick(milliseconds(999));
  EXPECT_THAT(group.wire, IsEmpty());
  group.tick(milliseconds(1));
  EXPECT_EQ(group.wire.size(), 2u);
  // However long the silence, it goes on asking every eight times the first pause.
  for (int i = 0; i < 20; ++i) group.tick(milliseconds(4000));
  group.wire.clear();
  group.tick(milliseconds(4000));
  EXPECT_EQ(group.wire.size(), 2u);
}

TEST(AllReduce, does_not_ask_while_bytes_keep_coming) {
  Group group = two_members();
  group.compute(1, {1, 1});
  auto sent = group.wire;
  group.wire.clear();
  group.tick(milliseconds(400));
  group.deliver(1, 0, sent[0].send.message);
  group.tick(milliseconds(400));
  for (const auto& flying : group.wire) EXPECT_NE(flying.from, 0);
  group.wire.clear();
  group.tick(milliseconds(100));
  auto needs = of_kind<Need>(group.wire);
  ASSERT_FALSE(needs.empty());
  EXPECT_THAT(needs[0].partial_chunks, ElementsAre(2));
}

TEST(AllReduce, answers_the_same_question_alike_every_time) {
  Group group = two_members();
  group.compute(0, {1, 0});
  group.wire.clear();
  for (int time = 0; time < 3; ++time) {
    group.deliver(1, 0, Need{{1}, {}, true});
    auto partials = of_kind<PartialChunk>(group.wire);
    ASSERT_EQ(group.wire.size(), 1u);
    EXPECT_EQ(partials[0].chunk, 1u);
    group.wire.clear();
  }
}

TEST(AllReduce, a_committed_member_still_answers_a_peer_that_missed_everything) {
  Group group = two_members();
  group.compute_all();
  Rng rng(1);
  // All that rank 0 says after its partials is lost.
  while (!group.wire.empty()) {
    auto flying = group.wire.front();
    group.wire.erase(group.wire.begin());
    bool partial = std::holds_alternative<PartialChunk>(flying.send.message);
    if (flying.from == 0 && !partial) continue;
    group.deliver(flying.from, flying.send.rank, flying.send.message);
  }
  EXPECT_TRUE(group[0].held());
  EXPECT_FALSE(group[1].held());
  group.tick(milliseconds(500));
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
}

TEST(AllReduce, waits_anew_for_done_once_it_holds_the_step_then_tells_its_own_again) {
  Group group = two_members();
  group.tick(milliseconds(400));
  group.compute_all();
  while (!group.wire.empty()) {
    auto flying = group.wire.front();
    group.wire.erase(group.wire.begin());
    if (!std::holds_alternative<Done>(flying.send.message))
      group.deliver(flying.from, flying.send.rank, flying.send.message);
  }
  ASSERT_TRUE(group[0].held());
  group.tick(milliseconds(499));
  EXPECT_THAT(group.wire, IsEmpty());
  group.tick(milliseconds(1));
  ASSERT_EQ(of_kind<Done>(group.wire).size(), 2u);
  EXPECT_EQ(of_kind<Need>(group.wire).size(), 2u);
  EXPECT_EQ(of_kind<Done>(group.wire)[0], group[0].done());
}

TEST(AllReduce, holding_the_step_starts_the_wait_for_done_of_peers_long_silent) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, SlicePlan{{0, 0, 1, 1}}, 3, ChunkLayout{4, 4}, random_slices(rng, 4, 4, true));
  // Rank 0 owns the only chunk; rank 2 owes nothing but its DONE.
  group.compute(0, {1, 0});
  group.tick(milliseconds(450));
  group.wire.clear();
  group.compute(1, {1, 1});
  group.deliver(1, 0, ExchangeMessage(group.wire[0].send.message));
  ASSERT_TRUE(group[0].held());
  group.wire.clear();
  group.tick(milliseconds(100));
  for (const auto& flying : group.wire) EXPECT_NE(flying.from, 0);
}

TEST(AllReduce, does_not_answer_questions_that_are_settled) {
  Group group = two_members();
  group.compute_all();
  Rng rng(1);
  group.run(rng, {});
  ASSERT_TRUE(group.all_committed());
  group.deliver(1, 0, Need{{1}, {0, 2}, false});
  EXPECT_THAT(group.wire, IsEmpty());
  group.deliver(1, 0, Need{{}, {}, true});
  EXPECT_EQ(group.wire.size(), 1u);
}

TEST(AllReduce, the_digest_covers_the_values_and_what_was_fed) {
  Tree tree = Tree::of_slices(1);
  auto digest_of_step = [&](float value, DataFingerprint data_fingerprint) {
    Group group(tree, balanced_plan(tree, 1), 1, kLayout, {Values(10)});
    Values values(10, 1.0f);
    values[9] = value;
    std::vector<SendTo> out;
    group[0].on_partial(group.now(), {0, 0}, std::make_shared<const Values>(values),
                        data_fingerprint, out);
    EXPECT_EQ(result_digest_of(kLayout, *group[0].result(), data_fingerprint),
              group[0].result_digest());
    return group[0].result_digest();
  };
  Digest first = digest_of_step(1.0f, {{1, 2}, 3});
  EXPECT_EQ(digest_of_step(1.0f, {{1, 2}, 3}), first);
  EXPECT_NE(digest_of_step(2.0f, {{1, 2}, 3}), first);
  EXPECT_NE(digest_of_step(1.0f, {{9, 2}, 3}), first);
  EXPECT_NE(digest_of_step(1.0f, {{1, 9}, 3}), first);
  EXPECT_NE(digest_of_step(1.0f, {{1, 2}, 9}), first);
}

TEST(AllReduce, a_reconnection_recovers_at_once) {
  Group group = two_members();
  group.compute_all();
  group.wire.clear();  // the link broke: all is lost
  Rng rng(1);
  group.reconnect(0, 1);
  group.run(rng, {});
  EXPECT_TRUE(group.all_committed());
}

TEST(AllReduce, tells_the_times_of_all) {
  Group group = two_members();
  group[0].set_times({1500, 100, 3, 2}, {40, 50, 60, 70});
  group[1].set_times({2500, 0, 1, 1}, {});
  group.compute_all();
  Rng rng(1);
  group.run(rng, {});
  ASSERT_TRUE(group.all_committed());
  ASSERT_EQ(group[0].times(), group[1].times());
  const std::vector<StepTimes> times = group[1].times();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].compute, (ComputeTimes{1500, 100, 3, 2}));
  EXPECT_EQ(times[0].before, (AfterTimes{40, 50, 60, 70}));
  EXPECT_EQ(times[1].compute.compute_us, 2500u);
  EXPECT_EQ(group[0].done().times, times[0]);
}

TEST(AllReduce, names_whom_it_waits_for) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, SlicePlan{{0, 0, 1, 1}}, 3, kLayout, random_slices(rng, 4, 10, true));
  EXPECT_THAT(group[0].waiting_for(), ElementsAre(1, 2));
  EXPECT_THAT(group[1].waiting_for(), ElementsAre(0, 2));
  EXPECT_THAT(group[2].waiting_for(), ElementsAre(0, 1));
  group.compute(0, {1, 0});
  group.run(rng, {});
  EXPECT_THAT(group[2].waiting_for(), ElementsAre(0, 1));
}

}  // namespace
}  // namespace gpunode::collective
