#include "runtime/transport/detail/outbox.hpp"

#include <utility>

namespace gpunode::transport::detail {

Result<bool> Outbox::push(const NodeId& to, Message message) {
  std::lock_guard lock(mutex_);
  if (!open_ && !waits_without_session_)
    return {ErrorCode::unavailable, "no session with node " + to.short_text()};
  if (direct_ && open_ && !flush_posted_ && queue_.empty() && direct_(message)) return false;
  const std::size_t bytes = size_of(message);
  if (queue_.size() >= limits_.messages || (bytes_ > 0 && bytes_ + bytes > limits_.bytes))
    return {ErrorCode::resource_exhausted,
            "too much waits for node " + to.short_text() + ": it reads slower than we send"};
  if (!queue_.push(std::move(message))) return false;
  bytes_ += bytes;
  return !std::exchange(flush_posted_, true);
}

void Outbox::wait_without_session(bool may) {
  std::lock_guard lock(mutex_);
  waits_without_session_ = may;
}

bool Outbox::may_wait_without_session() const {
  std::lock_guard lock(mutex_);
  return waits_without_session_;
}

bool Outbox::empty() const {
  std::lock_guard lock(mutex_);
  return queue_.empty();
}

std::optional<Message> Outbox::take() {
  std::lock_guard lock(mutex_);
  bytes_ -= std::exchange(taken_bytes_, 0);
  std::optional<Message> message = queue_.take();
  if (message)
    taken_bytes_ = size_of(*message);
  else
    flush_posted_ = false;
  return message;
}

void Outbox::put_back(Message message) {
  std::lock_guard lock(mutex_);
  taken_bytes_ = 0;
  queue_.put_back(std::move(message));
}

bool Outbox::rest() {
  std::lock_guard lock(mutex_);
  flush_posted_ = false;
  return !queue_.empty();
}

void Outbox::open(Direct direct) {
  std::lock_guard lock(mutex_);
  open_ = true;
  direct_ = std::move(direct);
  flush_posted_ = true;
}

void Outbox::reset() {
  SendQueue lost;  // payloads end outside of the lock: their owners may be large
  std::lock_guard lock(mutex_);
  open_ = false;
  direct_ = nullptr;
  flush_posted_ = false;
  bytes_ = taken_bytes_ = 0;
  std::swap(lost, queue_);
}

}  // namespace gpunode::transport::detail
