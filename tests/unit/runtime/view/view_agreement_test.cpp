#include "runtime/view/view_agreement.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"
#include "tests/support/twin_signer.hpp"

namespace gpunode::view {
namespace {

using namespace std::chrono_literals;

View first_view() {
  View first;
  first.acceptors = {node(1), node(2), node(3)};
  first.tie = node(1);
  return first;
}

// As a view is by now that all nodes have voted for.
Votes votes_of(View view) {
  view = decided_by(first_view(), std::move(view), {node(1), node(2), node(3)}).view;
  return {view, {decided_by(first_view(), view, {node(1), node(2), node(3)})}, {}, {}, {}};
}

Votes votes_of(int acceptors) {
  View view;
  view.view_id = 3;
  for (int i = 1; i <= acceptors; ++i) {
    view.acceptors.push_back(node(i));
    view.members.push_back({node(i), 1});
  }
  view.tie = node(1);
  return votes_of(std::move(view));
}

// One acceptor whose disk answers when the test says so.
struct Acceptor {
  explicit Acceptor(int number, int of = 3, Votes votes = votes_of(3)) {
    if (of != 3) votes = votes_of(of);
    ViewAgreement::Options options;
    options.self = node(number);
    options.votes = std::move(votes);
    options.trust = {first_view(), std::make_shared<TwinSigner>(node(number)), false, {}};
    options.compose = [this](const std::vector<ViewAgreement::Promiser>& promisers, bool) {
      composed_of = promisers.size();
      View next = agreement->view();
      next.view_id += 1;
      next.previous = agreement->view().digest();
      next.base_step = static_cast<std::uint64_t>(composed_of);
      return Result<View>(next);
    };
    options.freeze = [this] {
      ++freezes;
      return Standing{};
    };
    options.suspected = [this](const NodeId& id) { return suspects.contains(id); };
    agreement = std::make_unique<ViewAgreement>(std::move(options));
  }
  ViewAgreement::Effects say(const NodeId& from, const VoteMessage& message, Time now = Time{}) {
    ViewAgreement::Effects out;
    agreement->on_message(now, from, message, out);
    return out;
  }
  ViewAgreement::Effects durable(std::uint64_t token, Time now = Time{}) {
    ViewAgreement::Effects out;
    agreement->on_persisted(now, token, out);
    return out;
  }
  ViewAgreement::Effects tick(Time now) {
    ViewAgreement::Effects out;
    agreement->on_tick(now, out);
    return out;
  }
  // Its turn has come, and node 2 hears it.
  ViewAgreement::Effects propose(Time now) {
    const ViewAgreement::Effects asked = tick(now);
    for (const auto& [to, message] : asked.sends)
      if (const auto* probe = std::get_if<Probe>(&message))
        return say(node(2), Echo{probe->nonce}, now);
    return asked;
  }
  std::unique_ptr<ViewAgreement> agreement;
  std::set<NodeId> suspects;
  std::size_t composed_of = 0;
  int freezes = 0;
};

template <class T>
const T* sent(const ViewAgreement::Effects& effects, std::size_t index = 0) {
  if (index >= effects.sends.size()) return nullptr;
  return std::get_if<T>(&effects.sends[index].second);
}

View next_view(const Acceptor& acceptor, std::uint64_t base) {
  View next = acceptor.agreement->view();
  next.view_id += 1;
  next.previous = acceptor.agreement->view().digest();
  next.base_step = base;
  return next;
}

TEST(ViewAgreement, a_promise_freezes_at_once_and_leaves_only_when_it_is_durable) {
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

TEST(ViewAgreement, a_lower_ballot_is_refused) {
  Acceptor acceptor(2);
  acceptor.say(node(3), Prepare{{5, node(3)}});
  const auto effects = acceptor.say(node(1), Prepare{{4, node(1)}});
  ASSERT_NE(sent<Refuse>(effects), nullptr);
  EXPECT_EQ(sent<Refuse>(effects)->promised.round, 5u);
  const auto accept = acceptor.say(node(1), Accept{{4, node(1)}, next_view(acceptor, 7)});
  EXPECT_NE(sent<Refuse>(accept), nullptr);
  EXPECT_FALSE(acceptor.agreement->votes().accepted);
}

TEST(ViewAgreement, a_vote_survives_a_restart_and_is_told_to_the_next_proposer) {
  Acceptor first(2);
  auto effects = first.say(node(1), Accept{{2, node(1)}, next_view(first, 7)});
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

TEST(ViewAgreement, the_proposer_adopts_the_value_of_the_highest_ballot) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  auto effects = proposer.propose(Time{} + 100ms);
  effects = proposer.durable(effects.persists.at(0).first, Time{} + 100ms);
  ASSERT_NE(sent<Prepare>(effects), nullptr);
  const Ballot ballot = sent<Prepare>(effects)->ballot;
  proposer.say(node(2), Promise{ballot, AcceptedView{{1, node(2)}, next_view(proposer, 4)}, {}});
  effects = proposer.say(node(3),
                         Promise{ballot, AcceptedView{{2, node(3)}, next_view(proposer, 5)}, {}});
  ASSERT_NE(sent<Accept>(effects), nullptr);
  EXPECT_EQ(sent<Accept>(effects)->view.base_step, 5u);
  EXPECT_EQ(proposer.composed_of, 0u);
}

TEST(ViewAgreement, it_waits_for_the_unsuspected_and_no_longer_than_the_grace) {
  Acceptor proposer(1);
  proposer.agreement->want_change(Time{});
  auto effects = proposer.propose(Time{} + 100ms);
  effects = proposer.durable(effects.persists.at(0).first, Time{} + 100ms);
  const Ballot ballot = sent<Prepare>(effects)->ballot;
  effects = proposer.say(node(2), Promise{ballot, {}, {}}, Time{} + 110ms);
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
  return {ballot, proposer.say(node(2), Promise{ballot, {}, {}}, Time{} + 110ms)};
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
  effects = acceptor.say(node(1), Accept{{1, node(1)}, votes_of(3).view});  // not the next view
  EXPECT_TRUE(effects.sends.empty() && effects.persists.empty());
  View of_others = next_view(acceptor, 9);
  of_others.previous.low ^= 1;  // the next one of another part of the job
  effects = acceptor.say(node(1), Accept{{1, node(1)}, of_others});
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
  view.restores = true;
  view.floor = {{{1, 55}, 6}, {node(1)}};
  Votes votes = votes_of(view);
  votes.floor = {{{2, 66}, 9}, {node(2), node(3)}};
  votes.promised = {9, node(2)};
  votes.accepted = AcceptedView{{8, node(3)}, votes.view};
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
