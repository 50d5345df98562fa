// What a member can do to the others by what it says, and what it cannot.
#include <gtest/gtest.h>

#include "runtime/membership/swim.hpp"
#include "tests/unit/runtime/membership/swim_world.hpp"

namespace gpunode::membership {
namespace {

using namespace std::chrono_literals;

TEST_F(SwimTest, WhoPassesOnForgeriesCostsOneSignatureASecondAndIsStillAnswered) {
  int looked_at = 0;
  RecordSigning signing = test_signing(0);
  signing.verify = [&looked_at, verify = signing.verify](const auto&... of) {
    ++looked_at;
    return verify(of...);
  };
  Swim swim(test_record(0), {}, signing, 1, now);
  say(swim, 1, alive(test_record(1)));
  looked_at = 0;
  Message lies;
  lies.kind = MessageKind::ping;
  for (int index = 2; index < 40; ++index) {
    lies.rumors.push_back(alive(test_record(index)).rumors.front());
    lies.rumors.back().record->name = "forged";
  }
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(sent_to(say(swim, 1, lies), 1).back().kind, MessageKind::ack);
  EXPECT_EQ(looked_at, 1);
  say(swim, 1, alive(test_record(50)));
  EXPECT_EQ(swim.find(test_id(50)), nullptr) << "the truth neither, for a second";
  now += 1s;
  say(swim, 1, alive(test_record(50)));
  EXPECT_NE(swim.find(test_id(50)), nullptr);
}

TEST_F(SwimTest, AMemberThatIsSomethingNewAllTheTimeIsHeardNowAndThen) {
  Swim swim = make();
  introduce(swim, {1, 2});
  const auto counter = [&] { return swim.find(test_id(1))->record.incarnation.counter; };
  for (std::uint64_t told = 1; told <= 1000; ++told) say(swim, 1, alive(test_record(1, 1, told)));
  EXPECT_GE(counter(), 15u) << "as one that is suspected over and over";
  EXPECT_LE(counter(), 25u);
  now += 1s;
  for (std::uint64_t told = 1001; told <= 2000; ++told)
    say(swim, 1, alive(test_record(1, 1, told)));
  EXPECT_GT(counter(), 1000u);
  EXPECT_LE(counter(), 1010u);
  say(swim, 1, alive(test_record(1, 2, 0)));
  EXPECT_EQ(swim.find(test_id(1))->record.incarnation, (Incarnation{2, 0}))
      << "in a new life at once";
}

TEST_F(SwimTest, WhatOthersMakeUpAboutAMemberDoesNotKeepItFromBeingHeard) {
  Swim swim = make();
  introduce(swim, {1});
  for (std::uint64_t told = 1; told <= 100; ++told) {
    MemberRecord forged = test_record(1, 1, told + 100);
    forged.name = "forged";
    say(swim, static_cast<int>(told) + 1, alive(forged));
  }
  say(swim, 1, alive(test_record(1, 1, 1)));
  EXPECT_EQ(swim.find(test_id(1))->record.incarnation.counter, 1u);
}

}  // namespace
}  // namespace gpunode::membership
