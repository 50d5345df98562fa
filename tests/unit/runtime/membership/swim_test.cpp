#include "runtime/membership/swim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/runtime/membership/swim_world.hpp"

namespace gpunode::membership {
namespace {

using namespace std::chrono_literals;

TEST_F(SwimTest, ItsOwnRecordIsSigned) {
  const Swim swim = make();
  EXPECT_EQ(swim.self().signature, test_sign(test_id(0), signed_bytes(swim.self())));
}

TEST_F(SwimTest, AMemberIsKnownByItsSignedRecordOnly) {
  Swim swim = make();
  MemberRecord forged = test_record(1);
  forged.name = "forged";
  say(swim, 2, alive(forged));
  EXPECT_EQ(swim.find(test_id(1)), nullptr);
  EXPECT_EQ(swim.rejected_messages(), 1u);
  const Actions actions = say(swim, 2, alive(test_record(1)));
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
  EXPECT_EQ(count<Changed>(actions), 1);
}

TEST_F(SwimTest, AnOlderRecordReplacesNothing) {
  Swim swim = make();
  say(swim, 1, alive(test_record(1, 2, 5)));
  say(swim, 1, alive(test_record(1, 2, 4)));
  say(swim, 1, alive(test_record(1, 1, 900)));
  EXPECT_EQ(swim.find(test_id(1))->record.incarnation, (Incarnation{2, 5}));
  say(swim, 1, alive(test_record(1, 3, 0)));
  EXPECT_EQ(swim.find(test_id(1))->record.incarnation, (Incarnation{3, 0}));
}

TEST_F(SwimTest, APingIsAnswered) {
  Swim swim = make();
  introduce(swim, {1});
  Message ping;
  ping.kind = MessageKind::ping;
  ping.sequence = 77;
  const auto replies = sent_to(say(swim, 1, ping), 1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].kind, MessageKind::ack);
  EXPECT_EQ(replies[0].sequence, 77u);
}

TEST_F(SwimTest, AStrangerIsAskedForItsTableButNotAtFullSpeed) {
  Swim swim = make();
  Message gossip;
  EXPECT_EQ(sent_to(say(swim, 1, gossip), 1).size(), 1u);
  int sent = 0;
  for (int i = 0; i < 100; ++i) {
    now += 1ms;
    sent += static_cast<int>(sent_to(say(swim, 1, gossip), 1).size());
  }
  EXPECT_EQ(sent, 0);
}

TEST_F(SwimTest, ASilentMemberOfTwoIsSuspectThenDeadAndNotBeforeItsTime) {
  Swim swim = make();
  introduce(swim, {1});
  run(swim, 1s);
  EXPECT_EQ(state(swim, 1), PeerHealth::suspect);
  const Time suspected = swim.find(test_id(1))->since;
  run(swim, 3s);
  EXPECT_EQ(state(swim, 1), PeerHealth::dead);
  EXPECT_GE(swim.find(test_id(1))->since - suspected, 1200ms);
  EXPECT_EQ(swim.live_count(), 1u);
}

TEST_F(SwimTest, AMemberThatAnswersStaysAlive) {
  Swim swim = make();
  introduce(swim, {1});
  run(swim, 20s, {1});
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
}

TEST_F(SwimTest, WithFourMembersOneObserverAloneCannotCallOneDead) {
  Swim swim = make();
  introduce(swim, {1, 2, 3});
  run(swim, 60s, {1, 2});
  EXPECT_EQ(state(swim, 3), PeerHealth::suspect);
  say(swim, 1, claim(PeerHealth::suspect, 3, {1, 0}, {test_id(1)}));
  run(swim, 3s, {1, 2});
  EXPECT_EQ(state(swim, 3), PeerHealth::dead);
}

TEST_F(SwimTest, ASilentMemberIsProbedThroughHelpers) {
  Swim swim = make();
  introduce(swim, {1, 2});
  const Actions actions = run(swim, 800ms, {1});
  bool asked = false;
  for (const Message& message : sent_to(actions, 1))
    asked |= message.kind == MessageKind::ping_request && message.target == test_id(2);
  EXPECT_TRUE(asked);
}

TEST_F(SwimTest, AHelperPassesTheAnswerOnOrSaysNo) {
  Swim swim = make();
  introduce(swim, {1, 2});
  Message request;
  request.kind = MessageKind::ping_request;
  request.sequence = 5;
  request.target = test_id(2);
  const auto pings = sent_to(say(swim, 1, request), 2);
  ASSERT_FALSE(pings.empty());
  Message ack;
  ack.kind = MessageKind::ack;
  ack.sequence = pings[0].sequence;
  ack.target = test_id(2);
  const auto answers = sent_to(say(swim, 2, ack), 1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].kind, MessageKind::ack);
  EXPECT_EQ(answers[0].sequence, 5u);

  say(swim, 1, request);
  bool refused = false;
  for (const Message& message : sent_to(run(swim, 400ms), 1))
    refused |= message.kind == MessageKind::nack && message.sequence == 5;
  EXPECT_TRUE(refused);
}

TEST_F(SwimTest, ItObjectsToItsOwnDeathWithAHigherCounter) {
  Swim swim = make();
  introduce(swim, {1});
  const Actions actions = say(swim, 1, claim(PeerHealth::dead, 0, {1, 0}, {test_id(1)}));
  EXPECT_EQ(swim.self().incarnation, (Incarnation{1, 1}));
  bool told = false;
  for (const Message& message : sent_to(actions, 1))
    for (const Rumor& rumor : message.rumors)
      told |= rumor.subject == test_id(0) && rumor.record == swim.self();
  EXPECT_TRUE(told);
  EXPECT_GT(swim.local_health(), 0);
}

TEST_F(SwimTest, AHostileCounterCannotUseUpTheRange) {
  Swim swim = make();
  introduce(swim, {1});
  say(swim, 1, claim(PeerHealth::suspect, 0, {1, UINT64_MAX}));
  EXPECT_EQ(swim.self().incarnation.counter, 0u);
  say(swim, 1, claim(PeerHealth::suspect, 0, {1, 1000}));
  EXPECT_EQ(swim.self().incarnation.counter, 1001u);
}

TEST_F(SwimTest, ADeadRumourAgainstAMemberThatAnswersIsContested) {
  Swim swim = make();
  introduce(swim, {1, 2, 3});
  const Actions actions =
      say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, {test_id(1), test_id(3)}));
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
  bool told = false;
  for (const Message& message : sent_to(actions, 2))
    for (const Rumor& rumor : message.rumors)
      told |= rumor.subject == test_id(2) && rumor.state == PeerHealth::dead;
  EXPECT_TRUE(told) << "the subject must learn of it, so that it can object";
}

TEST_F(SwimTest, OfThreeAResetAndARefusedDialAreEnough) {
  Swim swim = make();
  introduce(swim, {1, 2});
  const Actions reset = swim.on_connection(now, test_id(1), LinkState::reset);
  EXPECT_EQ(count<Connect>(reset), 1);
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
  swim.on_connection(now, test_id(1), LinkState::refused);
  EXPECT_EQ(state(swim, 1), PeerHealth::dead);
}

TEST_F(SwimTest, OfFourTwoMustSeeTheRefusal) {
  Swim swim = make();
  introduce(swim, {1, 2, 3});
  swim.on_connection(now, test_id(1), LinkState::reset);
  swim.on_connection(now, test_id(1), LinkState::refused);
  EXPECT_EQ(state(swim, 1), PeerHealth::suspect);
  say(swim, 2, claim(PeerHealth::suspect, 1, {1, 0}, {}, {test_id(2)}));
  EXPECT_EQ(state(swim, 1), PeerHealth::dead);
}

TEST_F(SwimTest, ARefusedDialWithoutAResetProvesNothing) {
  Swim swim = make();
  introduce(swim, {1});
  swim.on_connection(now, test_id(1), LinkState::refused);
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
}

TEST_F(SwimTest, ANodeThatNobodyCanDialIsNotJudgedByRefusals) {
  Swim swim = make();
  MemberRecord record = test_record(1);
  record.dial_only = true;
  record.signature = test_sign(record.id, signed_bytes(record));
  say(swim, 1, alive(record));
  EXPECT_EQ(count<Connect>(swim.on_connection(now, test_id(1), LinkState::reset)), 0);
  swim.on_connection(now, test_id(1), LinkState::refused);
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
}

TEST_F(SwimTest, TheDeadAreTriedAgainWithinFortySeconds) {
  Swim swim = make();
  introduce(swim, {1});
  run(swim, 5s);
  ASSERT_EQ(state(swim, 1), PeerHealth::dead);
  const Actions actions = run(swim, 40s);
  EXPECT_GE(count<Connect>(actions), 1);
  bool synced = false;
  for (const Message& message : sent_to(actions, 1)) synced |= message.kind == MessageKind::sync;
  EXPECT_TRUE(synced);
}

TEST_F(SwimTest, ADeadMemberThatSpeaksIsToldOfItsDeath) {
  Swim swim = make();
  introduce(swim, {1});
  run(swim, 5s);
  bool told = false;
  for (const Message& message : sent_to(say(swim, 1, Message{}), 1))
    for (const Rumor& rumor : message.rumors)
      told |= rumor.subject == test_id(1) && rumor.state == PeerHealth::dead;
  EXPECT_TRUE(told);
  say(swim, 1, alive(test_record(1, 1, 1)));
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
}

TEST_F(SwimTest, OnlyTheOwnerCanSayGoodbye) {
  Swim swim = make();
  introduce(swim, {1, 2});
  say(swim, 2, claim(PeerHealth::left, 1, {1, 0}));
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
  MemberRecord goodbye = test_record(1, 1, 1);
  goodbye.left = true;
  goodbye.signature = test_sign(goodbye.id, signed_bytes(goodbye));
  say(swim, 2, alive(goodbye));
  EXPECT_EQ(state(swim, 1), PeerHealth::left);
}

TEST_F(SwimTest, LeavingTellsEverybody) {
  Swim swim = make();
  introduce(swim, {1, 2, 3, 4, 5, 6});
  const Actions actions = swim.leave(now);
  for (int index = 1; index <= 6; ++index) {
    const auto messages = sent_to(actions, index);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_TRUE(messages[0].rumors.at(0).record->left);
  }
}

TEST_F(SwimTest, AGoodbyeIsSaidAgainUntilItIsAnswered) {
  Swim swim = make();
  introduce(swim, {1, 2});
  std::map<int, std::uint64_t> asked;
  const Actions first = swim.leave(now);
  for (const int index : {1, 2}) asked[index] = sent_to(first, index).at(0).sequence;
  EXPECT_FALSE(swim.goodbye_heard());
  say(swim, 1, {MessageKind::ack, asked[2], test_id(1)});  // not what it was asked
  EXPECT_FALSE(swim.goodbye_heard());
  say(swim, 1, {MessageKind::ack, asked[1], test_id(1)});
  EXPECT_TRUE(swim.goodbye_heard());
  EXPECT_FALSE(swim.all_heard_goodbye());
  const Actions later = run(swim, 1s);
  EXPECT_TRUE(sent_to(later, 1).empty());
  ASSERT_FALSE(sent_to(later, 2).empty());
  EXPECT_TRUE(sent_to(later, 2).back().rumors.at(0).record->left);
  say(swim, 2, {MessageKind::ack, asked[2], test_id(2)});
  EXPECT_TRUE(swim.all_heard_goodbye());
  EXPECT_TRUE(run(swim, 1s).empty());
}

TEST_F(SwimTest, ANodeThatLeavesBeforeItsFirstLinkStandsSaysGoodbyeOverThatLink) {
  Swim swim = make();
  swim.add_seed(now, test_record(1));
  swim.leave(now);
  EXPECT_FALSE(swim.goodbye_heard());
  const auto said = sent_to(swim.on_connection(now, test_id(1), LinkState::up), 1);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].rumors.at(0).record->left);
  say(swim, 1, {MessageKind::ack, said[0].sequence, test_id(1)});
  EXPECT_TRUE(swim.goodbye_heard());
}

TEST_F(SwimTest, ANodeAloneHasNobodyToSayGoodbyeTo) {
  Swim swim = make();
  EXPECT_TRUE(swim.leave(now).empty());
  EXPECT_TRUE(swim.goodbye_heard());
}

TEST_F(SwimTest, WhoIsExpelledIsGoneAtOnceAndHeardNoMore) {
  std::set<NodeId> admitted = {test_id(1), test_id(2)};
  RecordSigning signing = test_signing(0);
  signing.admitted = [&](const NodeId& node) { return admitted.contains(node); };
  Swim swim(test_record(0), {}, signing, 1, now);
  introduce(swim, {1, 2});
  admitted.erase(test_id(1));
  EXPECT_EQ(count<Changed>(swim.expel(now, test_id(1))), 1);
  EXPECT_EQ(state(swim, 1), PeerHealth::left);
  say(swim, 1, alive(test_record(1, 2)));
  say(swim, 2, alive(test_record(1, 3)));
  EXPECT_EQ(state(swim, 1), PeerHealth::left);
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
}

TEST_F(SwimTest, WhoIsLetInAgainObjectsToBeingGone) {
  Swim swim = make();
  introduce(swim, {1});
  const auto before = swim.self().incarnation;
  say(swim, 1, claim(PeerHealth::left, 0, before));
  EXPECT_GT(swim.self().incarnation, before);
  EXPECT_FALSE(swim.self().left);
}

TEST_F(SwimTest, ItsOwnIdentityUnderAHigherBootIsAConflictNamedOnce) {
  Swim swim = make();
  EXPECT_EQ(count<Conflict>(say(swim, 1, alive(test_record(0, 9)))), 1);
  EXPECT_EQ(count<Conflict>(say(swim, 1, alive(test_record(0, 9)))), 0);
}

TEST_F(SwimTest, ASeedIsContactedUntilItAnswers) {
  Swim swim = make();
  const Actions first = swim.add_seed(now, test_record(1));
  EXPECT_EQ(count<Connect>(first), 1);
  EXPECT_EQ(sent_to(first, 1).size(), 1u);
  EXPECT_EQ(swim.find(test_id(1)), nullptr);
  EXPECT_GE(count<Connect>(run(swim, 5s)), 2);
  introduce(swim, {1});
  EXPECT_EQ(count<Connect>(run(swim, 5s, {1})), 0);
}

TEST_F(SwimTest, APauseOfThisMachineIsNotHeldAgainstTheOthers) {
  Swim swim = make();
  introduce(swim, {1});
  run(swim, 1s);
  ASSERT_EQ(state(swim, 1), PeerHealth::suspect);
  now += 10s;
  swim.on_tick(now);
  EXPECT_EQ(state(swim, 1), PeerHealth::suspect);
  swim.on_traffic(now, test_id(1));
  EXPECT_EQ(state(swim, 1), PeerHealth::alive);
}

TEST_F(SwimTest, WhoIsNotAdmittedIsNotHeard) {
  RecordSigning signing = test_signing(0);
  signing.admitted = [](const NodeId& id) { return id == test_id(1); };
  Swim swim(test_record(0), {}, signing, 1, now);
  say(swim, 2, alive(test_record(2)));
  EXPECT_EQ(swim.find(test_id(2)), nullptr);
  say(swim, 1, alive(test_record(2)));
  EXPECT_EQ(swim.find(test_id(2)), nullptr);
  say(swim, 1, alive(test_record(1)));
  EXPECT_NE(swim.find(test_id(1)), nullptr);
}

TEST_F(SwimTest, GarbageIsCountedAndDropped) {
  Swim swim = make();
  EXPECT_TRUE(swim.on_message(now, test_id(1), as_bytes("not a message at all")).empty());
  EXPECT_EQ(swim.rejected_messages(), 1u);
}

TEST_F(SwimTest, ABigTableTravelsInBoundedParts) {
  SwimConfig config;
  config.max_message_bytes = 4096;
  Swim swim = make(config);
  for (int index = 1; index <= 40; ++index) say(swim, index, alive(test_record(index)));
  now += 1s;
  Message sync;
  sync.kind = MessageKind::sync;
  sync.reply_wanted = true;
  std::set<NodeId> told;
  for (const Message& message : sent_to(say(swim, 1, sync), 1)) {
    EXPECT_LE(encode(message).size(), 6000u);
    for (const Rumor& rumor : message.rumors)
      if (message.kind == MessageKind::sync) told.insert(rumor.subject);
  }
  EXPECT_EQ(told.size(), 41u);
}

TEST_F(SwimTest, TheTableIsBounded) {
  SwimConfig config;
  config.max_members = 3;
  Swim swim = make(config);
  for (int index = 1; index <= 9; ++index) say(swim, index, alive(test_record(index)));
  EXPECT_EQ(swim.members().size(), 3u);
}

TEST_F(SwimTest, AnAnnouncedChangeIsSignedAndPushed) {
  Swim swim = make();
  introduce(swim, {1});
  MemberRecord changed = swim.self();
  changed.labels["zone"] = "b";
  const Actions actions = swim.announce(now, changed);
  EXPECT_EQ(swim.self().incarnation, (Incarnation{1, 1}));
  EXPECT_EQ(swim.self().signature, test_sign(test_id(0), signed_bytes(swim.self())));
  EXPECT_FALSE(sent_to(actions, 1).empty());
  EXPECT_TRUE(swim.announce(now, swim.self()).empty()) << "no change, no message";
}

}  // namespace
}  // namespace gpunode::membership
