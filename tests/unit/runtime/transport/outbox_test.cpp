// What may wait for a peer, how much of it, and when the lane's thread has to be woken.
#include "runtime/transport/detail/outbox.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gpunode::transport::detail {
namespace {

const NodeId kPeer{};

Message message_of(std::size_t bytes, std::uint64_t order = 0) {
  Message message;
  message.body = Bytes(bytes);
  message.order = order;
  return message;
}

std::optional<ErrorCode> refusal(Outbox& outbox, Message message) {
  auto pushed = outbox.push(kPeer, std::move(message));
  if (pushed) return std::nullopt;
  return pushed.error().code;
}

TEST(Outbox, TakesNothingWithoutASessionUnlessMessagesMayWaitForOne) {
  Outbox outbox({10, 100});
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::unavailable);
  outbox.wait_without_session(true);
  EXPECT_TRUE(outbox.push(kPeer, message_of(1)));
  outbox.wait_without_session(false);
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::unavailable);
  outbox.open();
  EXPECT_TRUE(outbox.push(kPeer, message_of(1)));
  outbox.reset();
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::unavailable);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, WakesOnceUntilItIsFoundEmpty) {
  Outbox outbox({10, 100});
  outbox.open();  // counts as woken: who opens flushes
  EXPECT_FALSE(*outbox.push(kPeer, message_of(1)));
  EXPECT_TRUE(outbox.take());
  EXPECT_FALSE(*outbox.push(kPeer, message_of(1)));
  EXPECT_TRUE(outbox.take());
  EXPECT_FALSE(outbox.take());
  EXPECT_TRUE(*outbox.push(kPeer, message_of(1)));
  EXPECT_FALSE(*outbox.push(kPeer, message_of(1)));
  EXPECT_TRUE(outbox.rest());
  EXPECT_TRUE(*outbox.push(kPeer, message_of(1)));
}

TEST(Outbox, CountsWhatIsBeingWrittenAndTakesOneThatIsOverTheLimitAlone) {
  Outbox outbox({10, 100});
  outbox.open();
  EXPECT_TRUE(outbox.push(kPeer, message_of(150)));
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::resource_exhausted);
  ASSERT_TRUE(outbox.take());
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::resource_exhausted) << "half sent";
  EXPECT_FALSE(outbox.take());
  EXPECT_TRUE(outbox.push(kPeer, message_of(100)));
  auto taken = outbox.take();
  ASSERT_TRUE(taken);
  outbox.put_back(std::move(*taken));
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::resource_exhausted);
  ASSERT_TRUE(outbox.take());
  outbox.reset();
  outbox.open();
  EXPECT_TRUE(outbox.push(kPeer, message_of(100))) << "what was half sent is gone too";
}

TEST(Outbox, BoundsTheNumberOfMessages) {
  Outbox outbox({2, 100});
  outbox.open();
  EXPECT_TRUE(outbox.push(kPeer, message_of(0)));
  EXPECT_TRUE(outbox.push(kPeer, message_of(0)));
  EXPECT_EQ(refusal(outbox, message_of(0)), ErrorCode::resource_exhausted);
}

TEST(Outbox, CountsNoBytesOfARepetitionAndTakesItAnewAfterAReset) {
  Outbox outbox({10, 2});
  outbox.open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(outbox.push(kPeer, message_of(1, 5)));
  EXPECT_TRUE(outbox.push(kPeer, message_of(1, 6))) << "only one of the three counts";
  outbox.reset();
  outbox.open();
  EXPECT_TRUE(outbox.push(kPeer, message_of(1, 5)));
  EXPECT_TRUE(outbox.take());
  EXPECT_FALSE(outbox.take());
}

TEST(Outbox, SendsDirectlyOnlyWhatOvertakesNothing) {
  Outbox outbox({10, 100});
  std::size_t direct = 0;
  bool blocked = false;
  outbox.open([&](const Message& message) {
    if (!blocked) direct += message.body.size();
    return !blocked;
  });
  EXPECT_FALSE(*outbox.push(kPeer, message_of(1)));
  EXPECT_EQ(direct, 0u) << "the flush of who opened is still to come";
  EXPECT_TRUE(outbox.take());
  EXPECT_FALSE(outbox.take());
  EXPECT_FALSE(*outbox.push(kPeer, message_of(2)));
  EXPECT_EQ(direct, 2u);
  EXPECT_TRUE(outbox.empty());
  blocked = true;
  EXPECT_TRUE(*outbox.push(kPeer, message_of(4))) << "it waits for the lane's thread";
  blocked = false;
  EXPECT_FALSE(*outbox.push(kPeer, message_of(8)));
  EXPECT_EQ(direct, 2u) << "it may not overtake";
  EXPECT_EQ(outbox.take()->body.size(), 4u);
  EXPECT_EQ(outbox.take()->body.size(), 8u);
  EXPECT_FALSE(outbox.take());
  outbox.reset();
  EXPECT_EQ(refusal(outbox, message_of(1)), ErrorCode::unavailable);
  EXPECT_EQ(direct, 2u) << "the session is gone";
}

// Writes nothing, and notes what it was asked to.
struct NotingWay {
  Outbox::Write write() {
    return [this](const Message& message) {
      written.push_back(message.stream);
      if (meanwhile) std::exchange(meanwhile, nullptr)();
      return answer;
    };
  }
  Outbox::Written answer = Outbox::Written::all;
  std::function<void()> meanwhile;
  std::vector<std::uint64_t> written;
};

Message call(std::uint64_t stream, std::size_t bytes = 100) {
  Message message = message_of(bytes);
  message.stream = stream;
  return message;
}

class SoonTest : public ::testing::Test {
 protected:
  void open() {
    outbox_.open({}, way_.write());
    EXPECT_FALSE(outbox_.take());  // the flush of who opens
  }
  NotingWay way_;
  Outbox outbox_{{1000, 1 << 20}};
};

TEST_F(SoonTest, WhoBringsItWritesWhereNobodyElseDoes) {
  EXPECT_FALSE(outbox_.push_soon(call(1), true).taken) << "no session";
  open();
  const auto pushed = outbox_.push_soon(call(2), true);
  EXPECT_TRUE(pushed.taken);
  EXPECT_FALSE(pushed.wakes);
  EXPECT_EQ(way_.written, std::vector<std::uint64_t>{2});
  const auto left = outbox_.push_soon(call(3), false);
  EXPECT_TRUE(left.taken && left.wakes) << "for the lane's thread";
  EXPECT_TRUE(outbox_.push_soon(call(4), true).taken) << "behind it";
  EXPECT_EQ(way_.written.size(), 1u);
  EXPECT_TRUE(outbox_.hold());
  EXPECT_EQ(outbox_.take()->stream, 3u);
  EXPECT_EQ(outbox_.take()->stream, 4u);
}

TEST_F(SoonTest, WhatOthersBringMeanwhileIsForTheLanesThread) {
  open();
  way_.meanwhile = [this] {
    EXPECT_FALSE(outbox_.hold()) << "one writes at a time";
    const auto other = outbox_.push_soon(call(2), true);
    EXPECT_TRUE(other.taken);
    EXPECT_FALSE(other.wakes) << "the writer does";
    EXPECT_FALSE(*outbox_.push(kPeer, call(3)));
  };
  EXPECT_TRUE(outbox_.push_soon(call(1), true).wakes);
  EXPECT_EQ(way_.written, std::vector<std::uint64_t>{1});
  EXPECT_TRUE(outbox_.hold());
  EXPECT_EQ(outbox_.take()->stream, 2u);
  EXPECT_EQ(outbox_.take()->stream, 3u);
  EXPECT_FALSE(outbox_.take());
  EXPECT_FALSE(outbox_.push_soon(call(4), true).wakes);
}

TEST_F(SoonTest, WhatIsWrittenInPartIsEndedByTheLanesThread) {
  open();
  way_.answer = Outbox::Written::rest;
  const auto pushed = outbox_.push_soon(call(1), true);
  EXPECT_TRUE(pushed.taken && pushed.wakes);
  EXPECT_TRUE(outbox_.push_soon(call(2), true).taken);
  EXPECT_EQ(way_.written.size(), 1u) << "never behind half a message";
}

TEST_F(SoonTest, WhereMuchLiesAheadItIsNotTaken) {
  open();
  way_.answer = Outbox::Written::nothing;
  const auto pushed = outbox_.push_soon(call(1), true);
  EXPECT_FALSE(pushed.taken || pushed.wakes);
  way_.answer = Outbox::Written::all;
  EXPECT_TRUE(outbox_.push_soon(call(2), true).taken);
  ASSERT_TRUE(outbox_.push(kPeer, message_of(100'000)));
  EXPECT_FALSE(outbox_.push_soon(call(3), true).taken);
  ASSERT_TRUE(outbox_.take());
  EXPECT_FALSE(outbox_.push_soon(call(3), true).taken) << "it is being sent";
  EXPECT_FALSE(outbox_.take());
  EXPECT_TRUE(outbox_.push_soon(call(3), true).taken);
}

TEST_F(SoonTest, ASessionThatEndsMeanwhileKeepsNobodyFromWriting) {
  open();
  way_.meanwhile = [this] {
    outbox_.reset();
    open();
  };
  const auto pushed = outbox_.push_soon(call(1), true);
  EXPECT_TRUE(pushed.taken) << "and lost with its session";
  EXPECT_FALSE(pushed.wakes);
  outbox_.push_soon(call(2), true);
  EXPECT_EQ(way_.written, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(SoonTest, ManyThatFindNoSessionAskForOneAndEachTimeItTakesMore) {
  outbox_.wait_without_session(true);
  const auto until_asked = [this] {
    for (int missed = 1; missed < 1000; ++missed)
      if (outbox_.misses_session()) return missed;
    return 0;
  };
  EXPECT_EQ(until_asked(), 16);
  EXPECT_TRUE(outbox_.wants_session());
  EXPECT_EQ(until_asked(), 0) << "once";
  outbox_.reset();
  EXPECT_FALSE(outbox_.wants_session());
  EXPECT_EQ(until_asked(), 32);
  open();
  EXPECT_EQ(until_asked(), 0) << "there is one";
  outbox_.reset();
  EXPECT_EQ(until_asked(), 16);
}

}  // namespace
}  // namespace gpunode::transport::detail
