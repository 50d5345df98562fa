// What waits for a peer: the more urgent first, each kind in order.
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
  Message first = queue.take();
  EXPECT_EQ(first.stream, 3u);
  queue.put_back(std::move(first));
  for (std::uint64_t stream : {3, 4, 2, 1}) EXPECT_EQ(queue.take().stream, stream);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, GivesMessagesOfAStreamByTheirOrderAndLeavesOtherStreamsTheirPlaces) {
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
  push(1, 5);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  while (!queue.empty()) {
    const Message message = queue.take();
    taken.emplace_back(message.stream, message.order);
  }
  EXPECT_EQ(taken, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                       {1, 9}, {2, 6}, {1, 0}, {1, 4}, {2, 7}, {1, 5}, {1, 5}}));
}

}  // namespace
}  // namespace gpunode::transport::detail
