// Who is asked, who is waited for, and what decides a view.
#include "tests/unit/runtime/view/view_agreement_fixture.hpp"

namespace gpunode::view {
namespace {

TEST(ViewAgreement, it_waits_for_the_unsuspected_and_no_longer_than_the_grace) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  auto effects = proposer.propose(Time{} + 100ms);
  effects = proposer.durable(effects.persists.at(0).first, Time{} + 100ms);
  const Ballot ballot = sent<Prepare>(effects)->ballot;
  effects = proposer.say(node(2), promise_of(proposer, 2, ballot), Time{} + 110ms);
  EXPECT_TRUE(effects.sends.empty()) << "node 3 is not suspected and may still answer";
  effects = proposer.tick(Time{} + 1200ms);
  ASSERT_NE(sent<Accept>(effects), nullptr);
  EXPECT_EQ(proposer.composed_of, 2u);
}

// What acceptors 1 and 2 of three come to, as 3 is suspected: 1 has its own promise on disk, and
// that of 2 in hand.
struct Asked {
  Ballot ballot;
  ViewAgreement::Effects effects;
};
Asked ask_for_votes(Acceptor& proposer) {
  proposer.suspects.insert(node(3));
  proposer.agreement->want_change(Time{});
  auto effects = proposer.propose(Time{} + 100ms);
  effects = proposer.durable(effects.persists.at(0).first, Time{} + 100ms);
  const Ballot ballot = sent<Prepare>(effects)->ballot;
  return {ballot, proposer.say(node(2), promise_of(proposer, 2, ballot), Time{} + 110ms)};
}

TEST(ViewAgreement, it_does_not_wait_for_the_suspected) {
  Acceptor proposer(1);
  EXPECT_NE(sent<Accept>(ask_for_votes(proposer).effects), nullptr);
}

TEST(ViewAgreement, a_view_is_decided_by_a_quorum_of_durable_votes) {
  Acceptor proposer(1);
  const auto [ballot, asked] = ask_for_votes(proposer);
  const Bytes vote = vote_bytes(ballot, proposer.agreement->view(), sent<Accept>(asked)->view);
  proposer.say(node(2), Accepted{ballot, TwinSigner(node(3)).sign(kVotePurpose, vote)});
  EXPECT_FALSE(proposer.durable(asked.persists.at(0).first).decided) << "node 2 signed nothing";
  const auto effects =
      proposer.say(node(2), Accepted{ballot, TwinSigner(node(2)).sign(kVotePurpose, vote)});
  ASSERT_TRUE(effects.decided);
  EXPECT_EQ(effects.decided->signers(), (std::vector{node(1), node(2)}));
  EXPECT_FALSE(proposer.agreement->prove({*effects.decided}, false).chain.empty());
}

TEST(ViewAgreement, a_vote_that_is_not_durable_yet_does_not_count) {
  Acceptor proposer(1);
  const auto [ballot, asked] = ask_for_votes(proposer);
  const Bytes vote = vote_bytes(ballot, proposer.agreement->view(), sent<Accept>(asked)->view);
  const auto effects =
      proposer.say(node(2), Accepted{ballot, TwinSigner(node(2)).sign(kVotePurpose, vote)});
  EXPECT_FALSE(effects.decided) << "the proposer's own vote";
  EXPECT_TRUE(proposer.durable(asked.persists.at(0).first).decided);
}

TEST(ViewAgreement, a_proposer_does_not_use_a_ballot_that_its_disk_has_not) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  const auto effects = proposer.propose(Time{} + 100ms);
  EXPECT_TRUE(effects.sends.empty());
  EXPECT_EQ(effects.persists.size(), 1u);
}

TEST(ViewAgreement, a_ballot_that_was_given_up_before_the_disk_had_it_is_not_asked_for) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  const auto effects = proposer.propose(Time{} + 100ms);
  ASSERT_EQ(effects.persists.size(), 1u);
  proposer.tick(Time{} + 10s);
  for (const auto& [to, message] : proposer.durable(effects.persists[0].first, Time{} + 11s).sends)
    EXPECT_FALSE(std::holds_alternative<Prepare>(message));
}

TEST(ViewAgreement, that_nobody_answers_is_said_when_nobody_has) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  proposer.propose(Time{} + 100ms);
  const std::string reason = proposer.agreement->waiting_reason();
  proposer.tick(Time{} + 10s);
  proposer.tick(Time{} + 10s + 50ms);
  EXPECT_EQ(proposer.agreement->waiting_reason(), reason) << "they are asked first";
  proposer.tick(Time{} + 10s + 300ms);
  EXPECT_NE(proposer.agreement->waiting_reason().find("no quorum"), std::string::npos);
}

TEST(ViewAgreement, who_hears_no_quorum_asks_whether_it_is_heard_and_freezes_nobody) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  for (auto now = Time{} + 100ms; now < Time{} + 20s; now += 50ms) {
    const auto effects = proposer.tick(now);
    EXPECT_TRUE(effects.persists.empty());
    for (std::size_t i = 0; i < effects.sends.size(); ++i)
      EXPECT_NE(sent<Probe>(effects, i), nullptr);
  }
  EXPECT_FALSE(proposer.agreement->frozen());
  EXPECT_EQ(proposer.agreement->missing(), (std::vector<NodeId>{node(2), node(3)}));
}

TEST(ViewAgreement, an_echo_of_long_ago_is_no_proof_of_being_heard) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  const auto asked = proposer.tick(Time{} + 100ms);
  ASSERT_NE(sent<Probe>(asked), nullptr);
  const auto late = proposer.say(node(2), Echo{sent<Probe>(asked)->nonce}, Time{} + 5s);
  EXPECT_TRUE(late.persists.empty());
  EXPECT_FALSE(proposer.agreement->frozen());
}

TEST(ViewAgreement, by_force_whoever_answers_goes_on_without_a_quorum) {
  Acceptor lone(1);
  ViewAgreement::Effects effects;
  lone.agreement->force(Time{}, effects);
  effects = lone.durable(effects.persists.at(0).first, Time{});
  EXPECT_FALSE(lone.tick(Time{} + 500ms).decided) << "others may still answer";
  const auto decided = lone.tick(Time{} + 1100ms).decided;
  ASSERT_TRUE(decided);
  EXPECT_EQ(lone.composed_of, 1u);
}

TEST(ViewAgreement, by_force_one_without_a_part_goes_on_too) {
  Acceptor outside(9);
  ViewAgreement::Effects effects;
  outside.agreement->force(Time{}, effects);
  EXPECT_TRUE(outside.agreement->frozen());
  EXPECT_EQ(effects.sends.size(), 3u);
  EXPECT_TRUE(outside.tick(Time{} + 1100ms).decided);
  EXPECT_EQ(outside.composed_of, 1u);
}

TEST(ViewAgreement, a_floor_is_noted_once_a_quorum_has_it_on_disk) {
  const Floor floor{{{}, 40}, {node(1), node(2)}};
  Acceptor member(1), other(2);
  ViewAgreement::Effects asked;
  member.agreement->note_floor(Time{}, floor, asked);
  ASSERT_EQ(asked.persists.size(), 1u) << "it votes itself";
  EXPECT_FALSE(member.durable(asked.persists[0].first).noted) << "one of three";
  const auto writes = other.say(node(1), NoteFloor{floor});
  EXPECT_TRUE(writes.sends.empty());
  ASSERT_EQ(writes.persists.size(), 1u);
  EXPECT_EQ(decode_votes(writes.persists[0].second)->floor, floor);
  const auto told = other.durable(writes.persists[0].first);
  ASSERT_NE(sent<FloorNoted>(told), nullptr);
  const auto noted = member.say(node(2), FloorNoted{floor.name}).noted;
  ASSERT_TRUE(noted);
  EXPECT_EQ(*noted, floor);
}

TEST(ViewAgreement, who_has_promised_notes_no_floor_any_more) {
  Acceptor acceptor(2);
  acceptor.say(node(1), Prepare{{1, node(1)}});
  const auto effects = acceptor.say(node(1), NoteFloor{{{{}, 40}, {node(1)}}});
  EXPECT_TRUE(effects.sends.empty() && effects.persists.empty());
  EXPECT_EQ(acceptor.agreement->floor(), Floor{});
}

TEST(ViewAgreement, messages_of_strangers_and_stolen_ballots_are_ignored) {
  Acceptor acceptor(2);
  auto effects = acceptor.say(node(3), Prepare{{9, node(1)}});  // not its own ballot
  EXPECT_TRUE(effects.sends.empty() && effects.persists.empty());
  effects = acceptor.say(node(1), Accept{{1, node(1)}, votes_of(3).view, {}});  // not the next view
  EXPECT_TRUE(effects.sends.empty() && effects.persists.empty());
  View of_others = next_view(acceptor, 9);
  of_others.previous.low ^= 1;  // the next one of another part of the job
  effects = acceptor.say(node(1), Accept{{1, node(1)}, of_others, {}});
  EXPECT_TRUE(effects.sends.empty() && effects.persists.empty());
}

TEST(ViewAgreement, adopting_a_view_ends_the_instance) {
  Acceptor acceptor(2);
  const auto promise = acceptor.say(node(1), Prepare{{1, node(1)}});
  ViewAgreement::Effects effects;
  const View& before = acceptor.agreement->view();
  acceptor.agreement->adopt(
      acceptor.agreement->with(decided_by(before, next_view(acceptor, 9), {node(1), node(3)})),
      effects);
  EXPECT_FALSE(acceptor.agreement->frozen());
  EXPECT_EQ(acceptor.agreement->view().view_id, 4u);
  EXPECT_EQ(effects.persists.size(), 1u);
  EXPECT_TRUE(acceptor.durable(effects.persists[0].first).sends.empty())
      << "the promise belongs to the instance that is over";
}

TEST(ViewAgreement, a_vote_file_with_a_flipped_bit_is_refused) {
  const Bytes bytes = encode_votes(votes_of(3));
  ASSERT_TRUE(decode_votes(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes bad = bytes;
    bad[i] ^= std::byte{4};
    EXPECT_FALSE(decode_votes(bad)) << "byte " << i;
  }
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_votes(ByteView(bytes).first(length)));
}

TEST(ViewAgreement, the_vote_file_brings_back_every_field) {
  View view = votes_of(4).view;
  view.plan = {0, 1, 2, 3, 0};
  view.state_digest = {1, 2};
  view.sync_sources = {node(1), node(2)};
  view.disagreed_step = 8;
  view.turns = {{2, 5, 55, Turn::Kind::rollback}, {3, 7, 66, Turn::Kind::ordered}};
  view.met = 9;
  view.order = order_of(view.job, node(7), OrderKind::stop, 12);
  view.restores = true;
  view.put_out = {node(8)};
  view.floor = {{{1, 55}, 6}, {node(1)}};
  Votes votes = votes_of(view);
  votes.floor = {{{2, 66}, 9}, {node(2), node(3)}};
  votes.promised = {9, node(2)};
  Standing where;
  where.plan = {0, 1, 1, 0};
  where.paces = {7, 8, 9};
  where.unreachable = {node(4)};
  const Claim earlier{{2, node(2)}, votes_of(3).view};
  Level level{{8, node(3)}, {told_by(node(1), votes.view, {8, node(3)}, where, earlier)}};
  level.promises.push_back(
      told_by(node(2), votes.view, {8, node(3)}, where, Claim{{3, node(2)}, votes.view}));
  level.promises.push_back(told_by(node(3), votes.view, {8, node(3)}));
  const Joining joining{{node(6), 3}, true, {{1, 55}, 6}, {3, 4}, true};
  votes.accepted =
      AcceptedView{{8, node(3)}, votes.view, {{level}, {{node(5)}, {joining}, {node(7)}}}};
  votes.accepted->proof.left_out = {level, level};
  votes.chain.back().proof = {{level}, {}};
  const auto back = decode_votes(encode_votes(votes));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->view, votes.view);
  EXPECT_EQ(back->chain, votes.chain);
  EXPECT_EQ(back->promised, votes.promised);
  EXPECT_EQ(back->accepted, votes.accepted);
  EXPECT_EQ(back->floor, votes.floor);
}

}  // namespace
}  // namespace gpunode::view
