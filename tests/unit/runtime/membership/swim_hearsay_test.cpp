// What a member can bring about by what it says of others, or asks for: a death only where this node
// finds one itself, and no more messages to a third than an honest house sends.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "runtime/membership/swim.hpp"
#include "tests/unit/runtime/membership/swim_world.hpp"

namespace gpunode::membership {
namespace {

using namespace std::chrono_literals;

std::vector<int> up_to(int last) {
  std::vector<int> members(static_cast<std::size_t>(last));
  std::iota(members.begin(), members.end(), 1);
  return members;
}

std::vector<int> without(std::vector<int> members, int one) {
  std::erase(members, one);
  return members;
}

class HearsayTest : public SwimTest {
 protected:
  // Lets time pass until a member was not heard for so long that its silence contradicts nothing.
  void wait_until_unheard(Swim& swim, int member, const std::vector<int>& answering) {
    const auto unheard = [&] { return now - swim.find(test_id(member))->heard > 2500ms; };
    for (int i = 0; i < 1000 && !unheard(); ++i) run(swim, 50ms, answering);
    ASSERT_TRUE(unheard());
    ASSERT_EQ(state(swim, member), PeerHealth::alive);
  }
  // Who was asked to probe `target`, and under which number.
  static std::map<int, std::uint64_t> asked(const Actions& actions, int target, int last) {
    std::map<int, std::uint64_t> helpers;
    for (int index = 1; index <= last; ++index)
      for (const Message& message : sent_to(actions, index))
        if (message.kind == MessageKind::ping_request && message.target == test_id(target))
          helpers[index] = message.sequence;
    return helpers;
  }
  static Message request(int target, std::uint64_t sequence) {
    return {MessageKind::ping_request, sequence, test_id(target), false, {}};
  }
  static int pings(const Actions& actions, int index) {
    int count = 0;
    for (const Message& message : sent_to(actions, index))
      count += message.kind == MessageKind::ping;
    return count;
  }
  static bool probed(const Actions& actions, int index) { return pings(actions, index) > 0; }
  static int deaths(const Actions& actions) {
    int count = 0;
    for (const Action& action : actions)
      if (const auto* changed = std::get_if<Changed>(&action))
        count += changed->state == PeerHealth::dead;
    return count;
  }
};

TEST_F(HearsayTest, WhatIsSaidOfAMemberReachesItOnceHoweverOftenItIsSaid) {
  Swim swim = make();
  introduce(swim, {1, 2});
  Message lies = claim(PeerHealth::dead, 2, {1, 0});
  lies.rumors.resize(kMaxRumors, lies.rumors.front());
  EXPECT_EQ(sent_to(say(swim, 1, lies), 2).size(), 1u);
  for (int i = 0; i < 20; ++i) {
    now += 10ms;
    EXPECT_TRUE(sent_to(say(swim, 1, lies), 2).empty());
  }
  now += 100ms;
  EXPECT_EQ(sent_to(say(swim, 1, lies), 2).size(), 1u);
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
}

TEST_F(HearsayTest, WhatIsSaidOfANewIncarnationReachesItAtOnce) {
  Swim swim = make();
  introduce(swim, {1, 2});
  EXPECT_EQ(sent_to(say(swim, 1, claim(PeerHealth::dead, 2, {1, 0})), 2).size(), 1u);
  say(swim, 2, alive(test_record(2, 1, 1)));
  EXPECT_EQ(sent_to(say(swim, 1, claim(PeerHealth::dead, 2, {1, 1})), 2).size(), 1u);
}

TEST_F(HearsayTest, OfSeveralRumoursAboutOneMemberInAMessageTheFirstIsRead) {
  Swim swim = make();
  say(swim, 2, alive(test_record(2, 1, 5)));
  introduce(swim, {1});
  Message lies = claim(PeerHealth::suspect, 2, {1, 4});
  lies.rumors.resize(kMaxRumors, lies.rumors.front());
  EXPECT_EQ(sent_to(say(swim, 1, lies), 1).size(), 1u) << "told of the newer record once";
}

TEST_F(HearsayTest, OneMemberMakesUsPingAnotherNowAndThenOnly) {
  Swim swim = make();
  introduce(swim, {1, 2, 3});
  int relayed = 0;
  std::uint64_t sequence = 0;
  for (int i = 0; i < 200; ++i) {
    now += 1ms;
    relayed += pings(say(swim, 1, request(2, ++sequence)), 2);
  }
  EXPECT_GE(relayed, 15) << "as when many fall silent at once";
  EXPECT_LE(relayed, 22);
  for (int i = 0; i < 200; ++i) {
    now += 1ms;
    relayed += pings(say(swim, 1, request(3, ++sequence)), 3);
  }
  EXPECT_LE(relayed, 24) << "whomever it names";
  EXPECT_TRUE(probed(say(swim, 2, request(3, ++sequence)), 3)) << "another may ask as before";
}

TEST_F(HearsayTest, ManyMembersTogetherMakeUsPingOneNowAndThenOnly) {
  Swim swim = make();
  introduce(swim, up_to(15));
  int relayed = 0;
  std::uint64_t last = 0;
  for (int asking = 2; asking <= 12; ++asking)
    for (int i = 0; i < 10; ++i)
      for (const Message& ping : sent_to(say(swim, asking, request(1, 7)), 1)) {
        ++relayed;
        last = ping.sequence;
      }
  EXPECT_EQ(relayed, 20);
  EXPECT_FALSE(probed(say(swim, 13, request(1, 5)), 1));
  const Actions actions = say(swim, 1, {MessageKind::ack, last, test_id(1), false, {}});
  const auto answers = sent_to(actions, 13);
  ASSERT_EQ(answers.size(), 1u) << "it gets the answer that another's ping got";
  EXPECT_EQ(answers[0].kind, MessageKind::ack);
  EXPECT_EQ(answers[0].sequence, 5u);
}

TEST_F(HearsayTest, AStrangerHasNobodyPinged) {
  Swim swim = make();
  introduce(swim, {1});
  EXPECT_FALSE(probed(say(swim, 9, request(1, 1)), 1));
}

TEST_F(HearsayTest, ADeathThatOneMakesUpIsLookedIntoAndWhoAnswersLives) {
  Swim swim = make();
  const auto all = up_to(50);
  introduce(swim, all);
  wait_until_unheard(swim, 2, all);
  const std::vector<NodeId> names = {test_id(1), test_id(3), test_id(4)};
  say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, names, names));
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect);
  EXPECT_TRUE(probed(run(swim, 100ms, all), 2));
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
}

TEST_F(HearsayTest, WhoIsNewAndCalledDeadIsNotTakenForLiveBeforeItAnswers) {
  Swim swim = make();
  introduce(swim, {1, 3});
  Message message = claim(PeerHealth::dead, 2, {1, 0});
  message.rumors.at(0).record = test_record(2);
  const Actions told = say(swim, 1, message);
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect);
  for (const Action& action : told)
    if (const auto* changed = std::get_if<Changed>(&action))
      EXPECT_NE(changed->state, PeerHealth::alive);
  run(swim, 100ms, {1, 2, 3});
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
}

TEST_F(HearsayTest, ATrueDeathIsBelievedOnceTheOwnProbeFailed) {
  Swim swim = make();
  const auto all = up_to(50);
  introduce(swim, all);
  wait_until_unheard(swim, 2, all);
  say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, {test_id(1), test_id(3)}));
  run(swim, 1s, without(all, 2));
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect) << "it has a suspect's time to object";
  run(swim, 300ms, without(all, 2));
  EXPECT_EQ(state(swim, 2), PeerHealth::dead);
}

TEST_F(HearsayTest, WhoWasFoundSilentLongEnoughIsDeadAsSoonAsOthersSaySo) {
  Swim swim = make();
  introduce(swim, {1, 2, 3});
  run(swim, 15s, {1, 3});
  ASSERT_EQ(state(swim, 2), PeerHealth::suspect) << "alone it cannot call it dead";
  say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}));
  EXPECT_EQ(state(swim, 2), PeerHealth::dead);
}

TEST_F(HearsayTest, RefusalsThatOneMakesUpProveNothingUntilOurOwnDialIsRefused) {
  Swim swim = make();
  introduce(swim, {1, 2, 3, 4});
  swim.on_connection(now, test_id(2), LinkState::reset);
  say(swim, 1, claim(PeerHealth::suspect, 2, {1, 0}, {}, {test_id(1), test_id(3)}));
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect);
  say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, {}, {test_id(1), test_id(3)}));
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect);
  swim.on_connection(now, test_id(2), LinkState::refused);
  EXPECT_EQ(state(swim, 2), PeerHealth::dead);
}

TEST_F(HearsayTest, WhoCallsARefusedMemberDeadIsBelievedAtOnce) {
  Swim swim = make();
  introduce(swim, {1, 2, 3, 4});
  swim.on_connection(now, test_id(2), LinkState::reset);
  swim.on_connection(now, test_id(2), LinkState::refused);
  ASSERT_EQ(state(swim, 2), PeerHealth::suspect);
  say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, {}, {test_id(1)}));
  EXPECT_EQ(state(swim, 2), PeerHealth::dead);
}

// In a large house a few look at once; the others look before they judge.
TEST_F(HearsayTest, NorAreManyDeadInALargeHouseOfWhichNoneWasLookedAt) {
  Swim swim = make();
  const auto all = up_to(100);
  introduce(swim, all);
  run(swim, 5s, all);
  for (int victim = 2; victim <= 21; ++victim)
    say(swim, 1, claim(PeerHealth::suspect, victim, {1, 0}, {test_id(1), test_id(30)}));
  EXPECT_EQ(deaths(run(swim, 10s, all)), 0);
  for (int victim = 2; victim <= 21; ++victim)
    EXPECT_EQ(deaths(say(swim, 1, claim(PeerHealth::dead, victim, {1, 0}, {test_id(1)}))), 0);
  EXPECT_EQ(deaths(run(swim, 10s, all)), 0);
}

TEST_F(HearsayTest, ATrueDeathInALargeHouseIsBelievedWithinASuspectsTime) {
  Swim swim = make();
  const auto all = up_to(100);
  introduce(swim, all);
  wait_until_unheard(swim, 2, all);
  say(swim, 1, claim(PeerHealth::suspect, 2, {1, 0}, {test_id(1), test_id(3)}));
  for (const Time end = now + suspicion_minimum({}, 101, 0) + 100ms; now < end;)
    for (const auto& [helper, sequence] : asked(run(swim, 50ms, without(all, 2)), 2, 100))
      say(swim, helper, {MessageKind::nack, sequence, test_id(2), false, {}});
  EXPECT_EQ(state(swim, 2), PeerHealth::dead);
}

TEST_F(HearsayTest, OnlyWhoWasAskedForHelpVouchesForASuspect) {
  Swim swim = make();
  introduce(swim, up_to(6));
  const auto others = without(up_to(6), 2);
  run(swim, 4s, others);
  ASSERT_EQ(state(swim, 2), PeerHealth::suspect);
  for (const int liar : others) say(swim, liar, {MessageKind::ack, 999'999, test_id(2), false, {}});
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect) << "nobody asked for that";
  std::map<int, std::uint64_t> helpers;
  for (int i = 0; i < 1000 && helpers.empty(); ++i) helpers = asked(run(swim, 50ms, others), 2, 6);
  ASSERT_EQ(helpers.size(), 3u);
  const auto [helper, sequence] = *helpers.begin();
  for (const int liar : others)
    if (!helpers.contains(liar))
      say(swim, liar, {MessageKind::ack, sequence, test_id(2), false, {}});
  EXPECT_EQ(state(swim, 2), PeerHealth::suspect);
  say(swim, helper, {MessageKind::ack, sequence, test_id(2), false, {}});
  EXPECT_EQ(state(swim, 2), PeerHealth::alive);
}

TEST_F(HearsayTest, AMemberThatOnlyOthersReachIsNotCalledDeadByALiar) {
  Swim swim = make();
  introduce(swim, {1, 2, 3, 4, 5});
  int died = 0;
  const std::vector<NodeId> names = {test_id(1), test_id(5)};
  for (int i = 0; i < 400; ++i) {
    died += deaths(say(swim, 1, claim(PeerHealth::dead, 2, {1, 0}, names, names)));
    const Actions actions = run(swim, 50ms, {1, 3, 4, 5});
    died += deaths(actions);
    for (const auto& [helper, sequence] : asked(actions, 2, 5))
      if (helper != 1) say(swim, helper, {MessageKind::ack, sequence, test_id(2), false, {}});
  }
  EXPECT_EQ(died, 0);
}

}  // namespace
}  // namespace gpunode::membership
