// What waits for a peer: the more urgent first, each kind in order, and nothing twice that is only
// asked for twice.
#include "runtime/transport/detail/send_queue.hpp"

#include <gtest/gtest.h>

namespace gpunode::transport::detail {
namespace {

Message message_of(Urgency urgency, std::uint64_t stream) {
  Message message;
  message.urgency = urgency;
  message.stream = stream;
  return message;
}

TEST(SendQueue, GivesTheUrgentFirstAndEachKindInOrder) {
  SendQueue queue;
  queue.push(message_of(Urgency::low, 1));
  queue.push(message_of(Urgency::normal, 2));
  queue.push(message_of(Urgency::high, 3));
  queue.push(message_of(Urgency::high, 4));
  Message first = *queue.take();
  EXPECT_EQ(first.stream, 3u);
  queue.put_back(std::move(first));
  for (std::uint64_t stream : {3, 4, 2, 1}) EXPECT_EQ(queue.take()->stream, stream);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, GivesMessagesOfAStreamByTheirOrderAndLeavesOtherStreamsWhereTheyAre) {
  SendQueue queue;
  const auto push = [&queue](std::uint64_t stream, std::uint64_t order) {
    Message message = message_of(Urgency::normal, stream);
    message.order = order;
    queue.push(std::move(message));
  };
  push(1, 9);
  push(2, 7);
  push(1, 0);  // not overtaken
  push(1, 5);
  push(2, 6);
  push(1, 4);
  push(1, 6);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  while (const auto message = queue.take()) taken.emplace_back(message->stream, message->order);
  EXPECT_EQ(taken, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                       {1, 9}, {2, 6}, {1, 0}, {1, 4}, {2, 7}, {1, 5}, {1, 6}}));
}

Message chunk(std::uint64_t order, std::uint8_t body) {
  Message message = message_of(Urgency::normal, 1);
  message.order = order;
  message.body = {std::byte(body)};
  return message;
}

TEST(SendQueue, DropsAnEqualMessageOnlyWhileTheFirstWaitsOrIsLeaving) {
  SendQueue queue;
  EXPECT_TRUE(queue.push(chunk(5, 1)));
  EXPECT_TRUE(queue.push(chunk(5, 2)));  // of the same order, but another
  EXPECT_TRUE(queue.push(chunk(6, 1)));
  for (int again = 0; again < 3; ++again) {
    EXPECT_FALSE(queue.push(chunk(5, 1)));
    EXPECT_FALSE(queue.push(chunk(5, 2)));
    EXPECT_FALSE(queue.push(chunk(6, 1)));
  }
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_TRUE(queue.take());
  EXPECT_FALSE(queue.push(chunk(5, 1)));
  EXPECT_TRUE(queue.take());
  EXPECT_TRUE(queue.push(chunk(5, 1)));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(SendQueue, KeepsEveryMessageThatHasNoOrder) {
  SendQueue queue;
  EXPECT_TRUE(queue.push(chunk(0, 1)));
  EXPECT_TRUE(queue.push(chunk(0, 1)));
  EXPECT_EQ(queue.size(), 2u);
}

}  // namespace
}  // namespace gpunode::transport::detail
