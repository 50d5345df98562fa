// What waits for one peer on one lane, the urgent first, and of a stream by its order. Not locked:
// its owner is. Who waits long asks again, so of equal messages with an order only one waits: each
// repetition would go right behind it and delay what is asked for next.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "runtime/transport/link.hpp"

namespace gpunode::transport::detail {

class SendQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // False: it has an order, and an equal one waits or is leaving; it was thrown away.
  bool push(Message message) {
    std::deque<Message>& queue = of(message);
    if (message.order != 0 && is_known(queue, message)) return false;
    ++size_;
    queue.push_back(std::move(message));
    settle(queue);
    return true;
  }
  // Back to where it was taken from.
  void put_back(Message message) {
    ++size_;
    of(message).push_front(std::move(message));
  }
  // The first of the most urgent, if any. What was taken before has left; this one is leaving.
  std::optional<Message> take() {
    leaving_.reset();
    const auto queue = std::ranges::find_if_not(queues_, &std::deque<Message>::empty);
    if (queue == queues_.end()) return std::nullopt;
    Message message = std::move(queue->front());
    queue->pop_front();
    --size_;
    if (message.order != 0)
      leaving_ = {message.topic, message.stream, message.body, {}, message.urgency, message.order};
    return message;
  }

 private:
  static bool equal(const Message& a, const Message& b) {
    return a.order == b.order && a.stream == b.stream && a.topic == b.topic && a.body == b.body;
  }
  bool is_known(const std::deque<Message>& queue, const Message& message) const {
    if (leaving_ && equal(*leaving_, message)) return true;
    for (std::size_t at = queue.size(); at-- > 0;) {
      const Message& other = queue[at];
      if (other.stream != message.stream || other.order == 0) continue;
      if (other.order < message.order) return false;
      if (equal(other, message)) return true;
    }
    return false;
  }
  // Moves the last one before the later ones of its stream. Other streams stay where they are: no
  // job gains on another by an order.
  static void settle(std::deque<Message>& queue) {
    std::size_t at = queue.size() - 1;
    if (queue[at].order == 0) return;
    for (std::size_t before = at; before-- > 0;) {
      if (queue[before].stream != queue[at].stream) continue;
      if (queue[before].order <= queue[at].order) return;
      std::swap(queue[before], queue[at]);
      at = before;
    }
  }
  std::deque<Message>& of(const Message& message) {
    return queues_[static_cast<std::size_t>(message.urgency)];
  }
  std::array<std::deque<Message>, 3> queues_;
  std::optional<Message> leaving_;  // without its payload
  std::size_t size_ = 0;
};

}  // namespace gpunode::transport::detail
