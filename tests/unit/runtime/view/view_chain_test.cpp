#include "runtime/view/view_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/view/view_agreement.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::view {
namespace {

std::vector<NodeId> nodes_of(const std::vector<int>& numbers) {
  std::vector<NodeId> nodes;
  for (const int number : numbers) nodes.push_back(node(number));
  return nodes;
}

View first_of(const std::vector<int>& candidates) {
  View first;
  first.job = {1, 1};
  first.acceptors = nodes_of(candidates);
  first.tie = first.acceptors.front();
  return first;
}

// The view after this one, in which these compute and vote.
View after(const View& before, const std::vector<int>& members) {
  View next = before;
  ++next.view_id;
  next.previous = before.digest();
  next.members.clear();
  for (const int member : members) next.members.push_back({node(member), 1});
  next.acceptors = nodes_of(members);
  next.tie = next.acceptors.front();
  return next;
}

View split_after(const View& before, const std::vector<int>& members, Turn::Kind kind) {
  View next = after(before, members);
  next.turns.push_back({next.view_id, next.base_step, next.view_id * 100, kind});
  return next;
}

// A job of nodes 1, 2 and 3, and what a node is told of it.
class ViewChainTest : public ::testing::Test {
 protected:
  // Goes on with these members by the votes of those.
  void go_on(const std::vector<int>& members, const std::vector<int>& voters) {
    add(decided_by(newest(), after(newest(), members), nodes_of(voters)));
  }
  void add(DecidedView next) {
    whole_.push_back(next);
    chain_ = extended(trust_.first, std::move(chain_), std::move(next));
  }
  const View& newest() const { return whole_.empty() ? trust_.first : whole_.back().view; }
  bool is_proven(const ViewChain& own, const ViewChain& told, bool astray = false) const {
    return !prove(trust_, own, told, astray).chain.empty();
  }
  // Of a node that was there up to this view.
  ViewChain known_at(std::uint64_t view_id) const {
    ViewChain known;
    for (const DecidedView& one : whole_)
      if (one.view.view_id <= view_id) known = extended(trust_.first, std::move(known), one);
    return known;
  }

  Trust trust_{first_of({1, 2, 3}), std::make_shared<TwinSigner>(node(9)), false, {}};
  ViewChain whole_;  // every view
  ViewChain chain_;  // what is kept of them
};

TEST_F(ViewChainTest, the_next_view_is_proven_by_a_quorum_of_the_voters_before_it) {
  const View next = after(trust_.first, {1, 2});
  EXPECT_TRUE(is_proven({}, {decided_by(trust_.first, next, nodes_of({1, 3}))}));
  EXPECT_FALSE(is_proven({}, {decided_by(trust_.first, next, nodes_of({1}))}));
  EXPECT_FALSE(is_proven({}, {decided_by(trust_.first, next, nodes_of({1, 1}))})) << "one voter";
  EXPECT_FALSE(is_proven({}, {decided_by(trust_.first, next, nodes_of({1, 7, 8}))}));
}

TEST_F(ViewChainTest, a_signature_holds_for_its_owner_its_view_its_ballot_and_its_voters_alone) {
  const DecidedView good = decided_by(trust_.first, after(trust_.first, {1, 2}), nodes_of({1, 3}));
  const auto refused = [&](auto spoil) {
    DecidedView bad = good;
    spoil(bad);
    return !is_proven({}, {bad});
  };
  EXPECT_TRUE(refused([](DecidedView& d) { d.seals[0].node = node(2); }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.seals[0].signature[5] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.view.base_step = 7; }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.view.acceptors = {node(9)}; }));
  EXPECT_TRUE(refused([](DecidedView& d) { ++d.ballot.round; }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.voters.pop_back(); }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.tie = node(3); }));
  EXPECT_TRUE(refused([](DecidedView& d) { d.view.job = {2, 2}; }));
  EXPECT_FALSE(refused([](DecidedView&) {}));
}

TEST_F(ViewChainTest, a_view_that_follows_on_another_one_is_refused) {
  View elsewhere = trust_.first;
  elsewhere.base_step = 5;
  EXPECT_FALSE(
      is_proven({}, {decided_by(elsewhere, after(elsewhere, {1, 2}), nodes_of({1, 2, 3}))}));
}

TEST_F(ViewChainTest, both_sides_of_a_fork_in_one_row_prove_nothing) {
  go_on({1, 2, 3}, {1, 2});
  const DecidedView before = whole_.back();
  const DecidedView one = decided_by(before.view, after(before.view, {1, 2}), nodes_of({1, 2}));
  const DecidedView other = decided_by(before.view, after(before.view, {1, 3}), nodes_of({1, 3}));
  const DecidedView last = decided_by(other.view, after(other.view, {1, 3}), nodes_of({1, 3}));
  EXPECT_TRUE(is_proven({}, {before, other, last}));
  EXPECT_FALSE(is_proven({}, {before, one, other, last}));
  EXPECT_FALSE(is_proven({before, one}, {other, last})) << "the fork is dealt with first";
}

TEST_F(ViewChainTest, numbers_are_skipped_where_a_quorum_of_the_view_known_has_signed) {
  go_on({1, 2, 3}, {1, 2});
  go_on({1, 2, 4}, {1, 2});
  go_on({1, 2, 4}, {1, 2});
  go_on({1, 4, 5}, {1, 4});
  EXPECT_TRUE(is_proven({}, {whole_[2]}));
  EXPECT_FALSE(is_proven({}, {whole_[3]})) << "of 1, 2 and 3 only one has signed it";
  EXPECT_TRUE(is_proven({}, {whole_[2], whole_[3]}));
  EXPECT_TRUE(is_proven(known_at(2), {whole_[3]}));
}

TEST_F(ViewChainTest, a_view_that_only_a_part_of_its_voters_signed_is_none) {
  go_on({1, 2, 3, 4, 5}, {1, 2});
  go_on({1, 2}, {1, 2});  // a quorum of the first view, not of those that voted on it
  EXPECT_FALSE(is_proven({}, {whole_[1]}));
  EXPECT_FALSE(is_proven(known_at(1), {whole_[1]}));
}

TEST_F(ViewChainTest, those_of_long_ago_prove_nothing_to_who_knows_more) {
  go_on({1, 4, 5}, {1, 2});
  const View before = after(after(newest(), {1, 2, 3}), {1, 2, 3});
  const ViewChain forged{decided_by(before, after(before, {2, 3}), nodes_of({2, 3}))};
  EXPECT_TRUE(is_proven({}, forged)) << "who knows nothing else believes the first voters";
  EXPECT_FALSE(is_proven(known_at(1), forged));
  EXPECT_TRUE(is_proven(known_at(1), forged, true)) << "nor does one that has lost the others";
}

TEST_F(ViewChainTest, a_row_stays_short_while_the_same_nodes_vote) {
  for (int i = 0; i < 300; ++i) {
    go_on(i % 2 == 0 ? std::vector{1, 2, 4} : std::vector{1, 2, 3}, {1, 2});
    ASSERT_LE(chain_.size(), 12u);
    ASSERT_TRUE(is_proven({}, chain_));
  }
}

TEST_F(ViewChainTest, a_row_proves_its_end_to_who_starts_anew_however_the_nodes_change) {
  for (int i = 1; i <= 200; ++i) {
    go_on({i, i + 1, i + 2, i + 3}, i == 1 ? std::vector{1, 2} : std::vector{i, i + 1, i + 2});
    ASSERT_TRUE(is_proven({}, chain_)) << i;
  }
}

// What voters were shown is large where they are many: no file is written that cannot be read again.
TEST_F(ViewChainTest, of_many_voters_as_much_is_kept_as_is_read_again) {
  std::vector<int> all(250);
  std::iota(all.begin(), all.end(), 1);
  Votes votes;
  votes.view = first_of(all);
  for (int round = 0; round < 10; ++round) {
    const View before = votes.view;
    DecidedView next = decided_by(before, after(before, all), nodes_of({1, 2, 3}));
    next.view.plan.assign(2048, 0);
    Level level{next.ballot, {}};
    for (const int voter : all) {
      level.promises.push_back(told_by(node(voter), before, next.ballot, {}, {}));
      level.promises.back().standing.plan.assign(2048, static_cast<std::uint16_t>(voter));
    }
    next.proof.levels = {level};
    votes.view = next.view;
    votes.chain = extended(first_of(all), std::move(votes.chain), std::move(next));
  }
  const auto whole = std::ranges::count_if(
      votes.chain, [](const DecidedView& one) { return !one.proof.levels.empty(); });
  EXPECT_GE(whole, 2);
  EXPECT_LT(whole, 8);
  const auto read = decode_votes(encode_votes(votes));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->chain, votes.chain);
}

TEST_F(ViewChainTest, who_missed_a_few_views_needs_only_those) {
  for (int i = 1; i <= 30; ++i)
    go_on({i, i + 1, i + 2}, i == 1 ? std::vector{1, 2} : std::vector{i, i + 1});
  const ViewChain told = since(chain_, whole_[26].view.name());
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(is_proven(known_at(27), told));
  EXPECT_EQ(since(chain_, newest().name()).size(), 1u) << "at least the newest";
}

TEST_F(ViewChainTest, who_is_behind_a_rollback_needs_only_what_came_since) {
  for (int i = 1; i <= 4; ++i) go_on({1, 2, 3}, {1, 2});
  View back = after(newest(), {1, 2, 3});
  back.turns.push_back({back.view_id, 0, 77, Turn::Kind::rollback});
  add(decided_by(newest(), back, nodes_of({2, 3})));
  go_on({1, 2, 3}, {1, 2});
  EXPECT_EQ(since(chain_, whole_[2].view.name()).size(), 3u);
  EXPECT_TRUE(is_proven(known_at(3), since(chain_, whole_[2].view.name())));
  EXPECT_EQ(since(chain_, {{1, 78}, 3}).size(), chain_.size()) << "of another history";
}

TEST_F(ViewChainTest, a_row_too_long_for_a_message_is_told_in_parts) {
  for (int i = 0; i < 60; ++i) {  // many voters, who are no quorum for long
    View next = after(newest(), {1});
    next.acceptors.clear();
    for (int n = i * 80; n < i * 80 + 120; ++n) {
      next.acceptors.push_back(node(n % 256));
      next.acceptors.back().value[1] = static_cast<std::byte>(1 + n / 256);
    }
    next.tie = next.acceptors.front();
    add(decided_by(newest(), next, newest().acceptors));
  }
  ViewChain ahead;
  ViewName known = trust_.first.name();
  for (int asked = 1;; ++asked) {
    ASSERT_LT(asked, 30);
    ViewChain told = ahead;
    for (DecidedView& one : since(chain_, known)) told.push_back(std::move(one));
    Proven proven = prove(trust_, {}, told, false);
    if (!proven.chain.empty()) {
      EXPECT_GT(asked, 2);
      EXPECT_EQ(proven.chain.back(), chain_.back());
      break;
    }
    ASSERT_GT(proven.on_the_way.size(), ahead.size());
    ahead = std::move(proven.on_the_way);
    known = ahead.back().view.name();
  }
}

TEST_F(ViewChainTest, a_part_goes_on_alone_where_the_job_lets_it_and_only_by_who_had_a_part) {
  go_on({1, 2, 3}, {1, 2});
  const auto by = [&](int who, Turn::Kind kind) {
    return ViewChain{decided_by(newest(), split_after(newest(), {who}, kind), {node(who)})};
  };
  EXPECT_FALSE(is_proven(whole_, by(3, Turn::Kind::split))) << "the job pauses without a quorum";
  trust_.parts_go_on = true;
  EXPECT_TRUE(is_proven(whole_, by(3, Turn::Kind::split)));
  EXPECT_FALSE(is_proven(whole_, by(8, Turn::Kind::split))) << "never had a part";
  EXPECT_FALSE(is_proven(whole_, by(3, Turn::Kind::ordered))) << "shows no order";
}

TEST_F(ViewChainTest, a_recovery_is_believed_for_the_order_that_it_carries) {
  trust_.may_order = orders_of([](const NodeId& one) { return one == node(8); });
  go_on({1, 2, 3}, {1, 2});
  const auto told = [&](const std::optional<SignedOrder>& order, int signer = 3) {
    View split = split_after(newest(), {3}, Turn::Kind::ordered);
    split.order = order;
    return ViewChain{decided_by(newest(), split, {node(signer)})};
  };
  const SignedOrder recover = order_of(trust_.first.job, node(8), OrderKind::recover, 5);
  EXPECT_TRUE(is_proven(whole_, told(recover)));
  EXPECT_FALSE(is_proven(whole_, told({})));
  EXPECT_FALSE(is_proven(whole_, told(order_of(trust_.first.job, node(3), OrderKind::recover, 5))))
      << "of one that may not";
  EXPECT_FALSE(is_proven(whole_, told(order_of(trust_.first.job, node(8), OrderKind::stop, 5))));
  EXPECT_FALSE(is_proven(whole_, told(order_of({9, 9}, node(8), OrderKind::recover, 5))))
      << "of another job";
  SignedOrder changed = recover;
  changed.issued = 6;
  EXPECT_FALSE(is_proven(whole_, told(changed)));
  ViewChain forged = told(recover);
  forged[0].seals[0].signature[0] ^= std::byte{1};
  EXPECT_FALSE(is_proven(whole_, forged));
}

// It was carried out a while ago: whoever has seen that does not go back by it.
TEST_F(ViewChainTest, an_order_recovers_a_job_once) {
  trust_.may_order = orders_of([](const NodeId& one) { return one == node(8); });
  go_on({1, 2, 3}, {1, 2});
  const auto split = [&](std::int64_t number) {
    View view = split_after(newest(), {3}, Turn::Kind::ordered);
    view.order = order_of(trust_.first.job, node(8), OrderKind::recover, number);
    return decided_by(newest(), view, {node(3)});
  };
  const DecidedView once = split(5);
  ASSERT_TRUE(is_proven(whole_, {once}));
  add(once);
  EXPECT_FALSE(is_proven(whole_, {split(5)}));
  EXPECT_FALSE(is_proven(whole_, {split(4)}));
  EXPECT_TRUE(is_proven(whole_, {split(6)}));
}

// Else any participant of a job that goes on in parts could stop it, for the others.
TEST_F(ViewChainTest, a_part_that_goes_on_by_itself_makes_up_no_order) {
  trust_.parts_go_on = true;
  trust_.may_order = orders_of([](const NodeId& one) { return one == node(8); });
  go_on({1, 2, 3}, {1, 2});
  const auto by = [&](int giver) {
    View view = split_after(newest(), {3}, Turn::Kind::split);
    view.stopped = true;
    view.order = order_of(trust_.first.job, node(giver), OrderKind::stop, 5);
    return ViewChain{decided_by(newest(), view, {node(3)})};
  };
  EXPECT_FALSE(is_proven(whole_, by(3)));
  EXPECT_TRUE(is_proven(whole_, by(8)));
}

TEST_F(ViewChainTest, each_side_of_a_split_proves_its_view_to_the_other) {
  trust_.parts_go_on = true;
  go_on({1, 2, 3}, {1, 2});
  go_on({1, 2, 3}, {1, 2});
  const View common = newest();
  ViewChain alone = chain_, quorum = chain_;
  const View split = split_after(common, {3}, Turn::Kind::split);
  alone = extended(trust_.first, std::move(alone), decided_by(common, split, {node(3)}));
  for (int i = 0; i < 30; ++i) {
    const View& last = alone.back().view;
    alone = extended(trust_.first, std::move(alone), decided_by(last, after(last, {3}), {node(3)}));
    const View& other = quorum.back().view;
    quorum = extended(trust_.first, std::move(quorum),
                      decided_by(other, after(other, {1, 2}), nodes_of({1, 2})));
  }
  const Proven came_over = prove(trust_, alone, since(quorum, alone.back().view.name()), false);
  ASSERT_FALSE(came_over.chain.empty());
  EXPECT_EQ(came_over.chain.back(), quorum.back());
  for (const DecidedView& one : came_over.chain) EXPECT_FALSE(one.is_split());
  const Proven yielded = prove(trust_, quorum, since(alone, quorum.back().view.name()), false);
  ASSERT_FALSE(yielded.chain.empty());
  EXPECT_EQ(yielded.chain.back(), alone.back());
  EXPECT_TRUE(is_proven({}, yielded.chain)) << "and they can pass it on";
}

TEST_F(ViewChainTest, a_view_behind_a_split_is_believed_only_with_the_split) {
  trust_.may_order = orders_of([](const NodeId& one) { return one == node(8); });
  go_on({1, 2, 3}, {1, 2});
  View split = split_after(newest(), {1, 2}, Turn::Kind::ordered);
  split.order = order_of(trust_.first.job, node(8), OrderKind::recover, 5);
  const DecidedView later = decided_by(split, after(split, {1, 2}), nodes_of({1, 2}));
  EXPECT_FALSE(is_proven(whole_, {later}));
  ViewChain unsigned_split{decided_by(newest(), split, {node(3)}), later};
  unsigned_split[0].seals[0].signature[0] ^= std::byte{1};
  EXPECT_FALSE(is_proven(whole_, unsigned_split));
  EXPECT_TRUE(is_proven(whole_, {decided_by(newest(), split, {node(3)}), later}));
}

}  // namespace
}  // namespace gpunode::view
