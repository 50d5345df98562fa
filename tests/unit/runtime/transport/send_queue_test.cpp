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

}  // namespace
}  // namespace gpunode::transport::detail
