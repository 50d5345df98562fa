// Steps that the members' devices sum: which way a step goes, and that a lost word is asked for.
#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

using namespace std::chrono_literals;
using Kind = IslandVerdict::Kind;

const Bytes kName(128, std::byte{7});

IslandOffer offer(IslandStage stage, Bytes name = {}, Digest host = {1, 1}) {
  return {stage, stage == IslandStage::absent ? "no GPU" : "", host, std::move(name)};
}
IslandOffer joined() {
  return offer(IslandStage::joined, kName);
}

// Exchanges of one view, whose devices are a plain sum in rank order.
class Members {
 public:
  explicit Members(const std::vector<IslandOffer>& offers) {
    const auto count = static_cast<std::uint16_t>(offers.size());
    Rng rng(3);
    slices_ = random_slices(rng, 4, kLayout.element_count, false);
    for (std::uint16_t rank = 0; rank < count; ++rank) {
      ExactExchange::Options options;
      options.rank = rank;
      options.member_count = count;
      options.tree = tree_;
      options.plan = balanced_plan(tree_, count);
      options.layout = kLayout;
      options.add = plain_add;
      options.island = offers[rank];
      exchanges.emplace_back(std::move(options), now);
      std::vector<SendTo> out;
      exchanges.back().tell_offer(out);
      take(rank, out);
    }
  }
  void compute() {
    for (std::uint16_t rank = 0; rank < exchanges.size(); ++rank)
      for (TreeNode node : exchanges[rank].own_cover()) {
        std::vector<SendTo> out;
        exchanges[rank].on_partial(now, node,
                                   std::make_shared<const Values>(tree_sum(tree_, node, slices_)),
                                   fed_of(tree_, node), out);
        take(rank, out);
      }
  }
  void run(double loss = 0) {
    while (!wire.empty()) {
      const auto [from, send] = wire.front();
      wire.erase(wire.begin());
      chunks += std::holds_alternative<PartialChunk>(send.message);
      if (rng_.chance(loss)) continue;
      std::vector<SendTo> out;
      exchanges[send.rank].on_message(now, from, send.message, out);
      take(send.rank, out);
    }
  }
  void tick() {
    now += 600ms;
    for (std::uint16_t rank = 0; rank < exchanges.size(); ++rank) {
      std::vector<SendTo> out;
      exchanges[rank].on_tick(now, out);
      take(rank, out);
    }
  }
  // Whether all devices had something to sum; `wrong`: one rank's result differs.
  bool sum(int wrong = -1) {
    sums_.resize(exchanges.size());
    bool all = true;
    for (std::size_t rank = 0; rank < exchanges.size(); ++rank) {
      if (auto one = exchanges[rank].take_island_sum()) sums_[rank] = std::move(*one);
      all = all && sums_[rank].result;
    }
    if (!all) return false;
    const std::vector<IslandSum> sums = std::exchange(sums_, {});
    Values total(kLayout.element_count, 0.0f);
    for (const IslandSum& one : sums)
      for (const SharedFloats& part : one.parts)
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += (*part)[i];
    for (std::uint16_t rank = 0; rank < exchanges.size(); ++rank) {
      *sums[rank].result = total;
      if (rank == wrong) sums[rank].result->front() += 1;
      std::vector<SendTo> out;
      exchanges[rank].on_island_sum(now, out);
      take(rank, out);
    }
    return true;
  }
  bool all(bool (ExactExchange::*asked)() const) const {
    return std::all_of(exchanges.begin(), exchanges.end(),
                       [asked](const ExactExchange& one) { return (one.*asked)(); });
  }
  bool all_go(Way way) const {
    return std::all_of(exchanges.begin(), exchanges.end(),
                       [way](const ExactExchange& one) { return one.way() == way; });
  }
  Values expected() const { return tree_sum(tree_, tree_.root(), slices_); }

  Time now{};
  std::vector<ExactExchange> exchanges;
  std::vector<std::pair<std::uint16_t, SendTo>> wire;
  int chunks = 0;

 private:
  void take(std::uint16_t from, std::vector<SendTo>& out) {
    for (SendTo& send : out) wire.emplace_back(from, std::move(send));
  }
  Tree tree_ = Tree::of_slices(4);
  std::vector<IslandSum> sums_;
  std::vector<Values> slices_;
  Rng rng_{5};
};

TEST(ExchangeIsland, devices_that_have_met_sum_and_no_chunk_travels) {
  Members members({joined(), joined(), joined()});
  members.run();
  EXPECT_TRUE(members.all_go(Way::island));
  EXPECT_FALSE(members.sum()) << "nobody has computed yet";
  members.compute();
  members.run();
  ASSERT_TRUE(members.sum());
  EXPECT_TRUE(members.all(&ExactExchange::held));
  members.run();
  EXPECT_TRUE(members.all(&ExactExchange::committed));
  EXPECT_EQ(members.chunks, 0);
  EXPECT_EQ(members.exchanges[0].fed(), fed_of(Tree::of_slices(4), Tree::of_slices(4).root()));
}

TEST(ExchangeIsland, one_member_without_a_device_sends_all_over_the_links_with_the_bits_of_exact) {
  for (IslandStage stage : {IslandStage::absent, IslandStage::opening, IslandStage::able}) {
    Members members({joined(), offer(stage), joined()});
    members.compute();
    members.run();
    EXPECT_TRUE(members.all_go(Way::links));
    ASSERT_TRUE(members.all(&ExactExchange::committed));
    EXPECT_TRUE(same_bits(*members.exchanges[2].result(), members.expected()));
  }
}

TEST(ExchangeIsland, a_step_waits_for_every_word_and_asks_for_what_was_lost) {
  for (const auto& third : {joined(), offer(IslandStage::able, {})}) {
    Members members({joined(), joined(), third});
    members.compute();
    for (int round = 0; round < 200 && !members.all(&ExactExchange::committed); ++round) {
      members.run(0.5);
      members.sum();
      members.tick();
    }
    EXPECT_TRUE(members.all(&ExactExchange::committed));
  }
}

TEST(ExchangeIsland, who_has_not_spoken_is_waited_for) {
  Members members({joined(), joined()});
  EXPECT_EQ(members.exchanges[0].waiting_for(), std::vector<std::uint16_t>{1});
  members.compute();
  for (const auto& [from, send] : members.wire)
    EXPECT_TRUE(std::holds_alternative<IslandOffer>(send.message)) << "sums leave once it is clear";
}

TEST(ExchangeIsland, different_sums_are_not_committed) {
  Members members({joined(), joined(), joined()});
  members.compute();
  members.run();
  ASSERT_TRUE(members.sum(1));
  members.run();
  EXPECT_FALSE(members.exchanges[0].committed());
  EXPECT_TRUE(members.all(&ExactExchange::disagreed));
}

TEST(ExchangeIsland, chunks_and_second_words_are_dropped_where_devices_sum) {
  Members members({joined(), joined()});
  members.run();
  std::vector<SendTo> out;
  ExactExchange& first = members.exchanges[0];
  first.on_message(members.now, 1, PartialChunk{0, {0, 2}, {}, floats({1, 2, 3, 4})}, out);
  first.on_message(members.now, 1, ResultChunk{1, {}, floats({1, 2, 3, 4})}, out);
  first.on_message(members.now, 1, offer(IslandStage::able), out);
  first.on_message(members.now, 1, Need{{1}, {0}, false}, out);
  EXPECT_EQ(first.dropped_messages(), 3u);
  EXPECT_TRUE(out.empty());
  first.on_message(members.now, 1, IslandReady{{{1, 1}, 1}}, out);
  first.on_message(members.now, 1, IslandReady{{{2, 2}, 1}}, out);
  EXPECT_EQ(first.dropped_messages(), 4u);
}

TEST(IslandOffer, members_first_name_a_meeting_then_join_it_then_sum) {
  std::vector<std::optional<IslandOffer>> offers(3, offer(IslandStage::able));
  EXPECT_EQ(judge(offers, false).kind, Kind::make_name);
  offers[0]->name = kName;
  EXPECT_EQ(judge(offers, false).kind, Kind::join);
  offers[0] = offers[1] = joined();
  EXPECT_EQ(judge(offers, false).kind, Kind::join);
  offers[2] = joined();
  EXPECT_EQ(judge(offers, false).kind, Kind::island);
  offers[1]->name[0] = std::byte{8};
  EXPECT_EQ(judge(offers, false).kind, Kind::links);
  offers[1].reset();
  EXPECT_EQ(judge(offers, false).kind, Kind::unknown);
  offers[2] = offer(IslandStage::absent);
  const IslandVerdict absent = judge(offers, false);
  EXPECT_EQ(absent.kind, Kind::links) << "settled without the silent one";
  EXPECT_EQ(absent.rank, 2);
  EXPECT_EQ(absent.reason, "no GPU");
}

TEST(IslandOffer, machines_meet_only_where_bytes_may_travel_in_clear) {
  std::vector<std::optional<IslandOffer>> offers(2, joined());
  offers[1]->host = {2, 2};
  EXPECT_EQ(judge(offers, true).kind, Kind::island);
  const IslandVerdict refused = judge(offers, false);
  EXPECT_EQ(refused.kind, Kind::links);
  EXPECT_EQ(refused.rank, 1);
  EXPECT_NE(refused.reason.find("plain"), std::string::npos);
  EXPECT_FALSE(on_one_host(offers));
  offers.push_back(joined());
  EXPECT_EQ(place_on_host(offers, 1), 0);
  EXPECT_EQ(place_on_host(offers, 2), 1);
}

}  // namespace
}  // namespace gpunode::collective
