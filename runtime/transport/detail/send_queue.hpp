// What waits for one peer on one lane, the urgent first, and of a stream by its order. Not locked:
// its owner is.
#pragma once

#include <array>
#include <deque>
#include <utility>

#include "runtime/transport/link.hpp"

namespace gpunode::transport::detail {

class SendQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void push(Message message) {
    ++size_;
    std::deque<Message>& queue = of(message);
    queue.push_back(std::move(message));
    settle(queue);
  }
  // Back to where it was taken from.
  void put_back(Message message) {
    ++size_;
    of(message).push_front(std::move(message));
  }
  // The first of the most urgent; the queue must not be empty.
  Message take() {
    std::size_t urgency = 0;
    while (queues_[urgency].empty()) ++urgency;
    Message message = std::move(queues_[urgency].front());
    queues_[urgency].pop_front();
    --size_;
    return message;
  }

 private:
  // The last one takes its place among those of its stream; the places of other streams stay.
  static void settle(std::deque<Message>& queue) {
    std::size_t place = queue.size() - 1;
    if (queue[place].order == 0) return;
    for (std::size_t before = place; before-- > 0;) {
      if (queue[before].stream != queue[place].stream) continue;
      if (queue[before].order <= queue[place].order) return;
      std::swap(queue[before], queue[place]);
      place = before;
    }
  }
  std::deque<Message>& of(const Message& message) {
    return queues_[static_cast<std::size_t>(message.urgency)];
  }
  std::array<std::deque<Message>, 3> queues_;
  std::size_t size_ = 0;
};

}  // namespace gpunode::transport::detail
