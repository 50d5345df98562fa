// What waits for one peer on one lane, the urgent first. Not locked: its owner is.
#pragma once

#include <array>
#include <deque>

#include "runtime/transport/link.hpp"

namespace gpunode::transport::detail {

class SendQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void push(Message message) {
    ++size_;
    of(message).push_back(std::move(message));
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
  std::deque<Message>& of(const Message& message) {
    return queues_[static_cast<std::size_t>(message.urgency)];
  }
  std::array<std::deque<Message>, 3> queues_;
  std::size_t size_ = 0;
};

}  // namespace gpunode::transport::detail
