// What may wait for a peer, how much of it, and when the lane's thread has to be woken.
#include "runtime/transport/detail/outbox.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gpunode::transport::detail
