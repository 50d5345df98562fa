// What a promise binds, and what a proposal has to show of those that it was given.
#include "tests/support/broken_rules.hpp"
#include "tests/unit/runtime/view/view_agreement_fixture.hpp"

namespace gpunode::view {
namespace {

TEST(ViewPromises, a_promise_freezes_at_once_and_leaves_only_when_it_is_durable) {
  Acceptor acceptor(2);
  const auto effects = acceptor.say(node(1), Prepare{{1, node(1)}});
  EXPECT_TRUE(effects.sends.empty());
  ASSERT_EQ(effects.persists.size(), 1u);
  EXPECT_TRUE(acceptor.agreement->frozen());
  EXPECT_EQ(acceptor.freezes, 1);
  const auto votes = decode_votes(effects.persists[0].second);
  ASSERT_TRUE(votes);
  EXPECT_EQ(votes->promised, (Ballot{1, node(1)}));
  const auto later = acceptor.durable(effects.persists[0].first);
  ASSERT_NE(sent<Promise>(later), nullptr);
  EXPECT_EQ(later.sends[0].first, node(1));
}

TEST(ViewPromises, in_one_ballot_it_votes_for_one_view_whatever_it_is_asked) {
  Acceptor acceptor(1);
  const Accept first = asked_by(acceptor, 2, 5, 1), second = asked_by(acceptor, 2, 5, 2);
  EXPECT_EQ(acceptor.say(node(2), first).persists.size(), 1u);
  EXPECT_TRUE(acceptor.say(node(2), second).persists.empty());
  EXPECT_EQ(acceptor.say(node(2), first).persists.size(), 1u) << "the same one again";
  const gpunode::testing::BreakRule rule("votes_twice_in_a_ballot");
  EXPECT_EQ(acceptor.say(node(2), second).persists.size(), 1u) << "the rule is needed";
}

TEST(ViewPromises, what_it_has_seen_of_a_view_stays_with_it) {
  Acceptor acceptor(1);
  const Accept first = asked_by(acceptor, 2, 5, 1), again = asked_by(acceptor, 2, 6, 1);
  acceptor.say(node(2), first);
  acceptor.say(node(2), again);
  const auto& accepted = acceptor.agreement->votes().accepted;
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->proof.left_out, first.proof.levels);
  ViewAgreement::Effects out;
  acceptor.agreement->adopt(
      {decided_by(acceptor.agreement->view(), accepted->view, {node(1), node(2)})}, out);
  const Proof& kept = acceptor.agreement->votes().chain.back().proof;
  EXPECT_EQ(kept.levels, again.proof.levels);
  EXPECT_EQ(kept.left_out, first.proof.levels);
}

TEST(ViewPromises, a_lower_ballot_is_refused) {
  Acceptor acceptor(2);
  acceptor.say(node(3), Prepare{{5, node(3)}});
  const auto effects = acceptor.say(node(1), Prepare{{4, node(1)}});
  ASSERT_NE(sent<Refuse>(effects), nullptr);
  EXPECT_EQ(sent<Refuse>(effects)->promised.round, 5u);
  const auto accept = acceptor.say(node(1), asked_by(acceptor, 1, 4, 7));
  EXPECT_NE(sent<Refuse>(accept), nullptr);
  EXPECT_FALSE(acceptor.agreement->votes().accepted);
}

TEST(ViewPromises, a_vote_survives_a_restart_and_is_told_to_the_next_proposer) {
  Acceptor first(2);
  auto effects = first.say(node(1), asked_by(first, 1, 2, 7));
  ASSERT_EQ(effects.persists.size(), 1u);
  auto votes = decode_votes(effects.persists[0].second);
  ASSERT_TRUE(votes);
  Acceptor second(2, 3, *votes);
  EXPECT_TRUE(second.agreement->frozen());
  effects = second.say(node(3), Prepare{{3, node(3)}});
  effects = second.durable(effects.persists[0].first);
  ASSERT_NE(sent<Promise>(effects), nullptr);
  ASSERT_TRUE(sent<Promise>(effects)->accepted);
  EXPECT_EQ(sent<Promise>(effects)->accepted->view.base_step, 7u);
}

TEST(ViewPromises, the_proposer_adopts_the_value_of_the_highest_ballot) {
  Acceptor proposer(1);
  const Ballot ballot = proposer.propose_after_others();
  proposer.say(node(2), promise_of(proposer, 2, ballot, {{1, 4}}));
  const auto effects = proposer.say(node(3), promise_of(proposer, 3, ballot, {{2, 5}}));
  ASSERT_NE(sent<Accept>(effects), nullptr);
  EXPECT_EQ(sent<Accept>(effects)->view.base_step, 5u);
  EXPECT_EQ(proposer.composed_of, 0u);
  EXPECT_TRUE(proposer.shows_why(*sent<Accept>(effects)));
}

TEST(ViewPromises, what_it_asks_votes_for_shows_what_it_was_promised) {
  Acceptor proposer(1);
  const Ballot ballot = proposer.propose_after_others();
  proposer.say(node(2), promise_of(proposer, 2, ballot));
  const auto effects = proposer.say(node(3), promise_of(proposer, 3, ballot));
  ASSERT_NE(sent<Accept>(effects), nullptr);
  EXPECT_EQ(sent<Accept>(effects)->proof.levels.at(0).promises.size(), 3u) << "its own among them";
  EXPECT_TRUE(proposer.shows_why(*sent<Accept>(effects)));
}

TEST(ViewPromises, a_promise_that_its_giver_has_not_signed_does_not_count) {
  Acceptor proposer(1);
  proposer.suspects.insert(node(3));
  const Ballot ballot = proposer.propose_after_others();
  Promise changed = promise_of(proposer, 2, ballot);
  changed.standing.finished = true;
  EXPECT_EQ(sent<Accept>(proposer.say(node(2), changed)), nullptr);
  EXPECT_EQ(sent<Accept>(proposer.say(node(2), promise_of(proposer, 3, ballot))), nullptr)
      << "another's";
  EXPECT_EQ(proposer.agreement->unproven(), 2u);
  EXPECT_NE(sent<Accept>(proposer.say(node(2), promise_of(proposer, 2, ballot))), nullptr);
}

// Else whoever makes up a view and a high ballot has the next proposer take it over.
TEST(ViewPromises, what_a_promiser_says_to_have_accepted_counts_with_its_proof_alone) {
  Acceptor proposer(1);
  proposer.suspects.insert(node(3));
  const Ballot ballot = proposer.propose_after_others();
  const auto told = [&](auto change) {
    Promise promise = promise_of(proposer, 2, ballot, {{2, 5}});
    change(*promise.accepted);
    promise = promised_by(node(2), proposer.agreement->view(), ballot, {}, promise.accepted);
    return sent<Accept>(proposer.say(node(2), promise)) != nullptr;
  };
  EXPECT_FALSE(told([](AcceptedView& v) { v.proof = {}; }));
  EXPECT_FALSE(told([](AcceptedView& v) { v.ballot.round = 3; })) << "a proof of another ballot";
  EXPECT_FALSE(told([](AcceptedView& v) { v.proof.levels[0].promises[0].standing.held = 1; }));
  EXPECT_FALSE(told([&](AcceptedView& v) { v.ballot = v.proof.levels[0].ballot = ballot; }));
  proposer.believes = false;
  EXPECT_FALSE(told([](AcceptedView&) {})) << "it follows from nothing";
  proposer.believes = true;
  EXPECT_TRUE(told([](AcceptedView&) {}));
}

TEST(ViewPromises, what_follows_from_no_promises_gets_no_vote_and_is_counted) {
  Acceptor acceptor(2);
  const auto votes = [&](const Accept& asked) {
    return !acceptor.say(node(1), asked).persists.empty();
  };
  Accept bare = asked_by(acceptor, 1, 1, 7);
  bare.proof = {};
  EXPECT_FALSE(votes(bare));
  acceptor.believes = false;
  EXPECT_FALSE(votes(asked_by(acceptor, 1, 1, 7)));
  EXPECT_EQ(acceptor.agreement->unproven(), 2u);
  EXPECT_FALSE(acceptor.agreement->frozen()) << "nor does it stop anything";
  acceptor.believes = true;
  EXPECT_TRUE(votes(asked_by(acceptor, 1, 1, 7)));
}

}  // namespace
}  // namespace gpunode::view
