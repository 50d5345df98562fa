#include "runtime/transport/detail/outbox.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/low_priority.hpp"

namespace gpunode::transport::detail {

Result<bool> Outbox::push(const NodeId& to, Message message) {
  std::lock_guard lock(mutex_);
  if (!open_ && !waits_without_session_)
    return {ErrorCode::unavailable, "no session with node " + to.short_text()};
  const bool at_once = direct_ && open_ && writer_ == Writer::nobody && queue_.empty();
  if (at_once && !has_low_priority() && direct_(message)) return false;
  const std::size_t bytes = size_of(message);
  if (queue_.size() >= limits_.messages || (bytes_ > 0 && bytes_ + bytes > limits_.bytes))
    return {ErrorCode::resource_exhausted,
            "too much waits for node " + to.short_text() + ": it reads slower than we send"};
  if (!queue_.push(std::move(message))) return false;
  bytes_ += bytes;
  if (writer_ != Writer::nobody) return false;
  writer_ = Writer::lane;
  return true;
}

Outbox::Pushed Outbox::push_soon(const Message& message, bool writes) {
  std::unique_lock lock(mutex_);
  const std::size_t bytes = size_of(message);
  if (!open_ || !write_ || bytes_ + bytes > kSoonBytes) return {};
  if (!writes || writer_ != Writer::nobody) {
    bytes_ += bytes;
    queue_.push(message);
    const bool wakes = writer_ == Writer::nobody;
    if (wakes) writer_ = Writer::lane;
    return {.taken = true, .wakes = wakes};
  }
  writer_ = Writer::sender;
  const Write write = write_;
  const std::uint64_t session = sessions_;
  lock.unlock();
  const Written written = write(message);
  lock.lock();
  Pushed pushed{.taken = written != Written::nothing};
  if (session != sessions_) return pushed;  // with which it is lost, and that is told
  pushed.wakes = written == Written::rest || !queue_.empty();
  writer_ = pushed.wakes ? Writer::lane : Writer::nobody;
  return pushed;
}

bool Outbox::misses_session() {
  std::lock_guard lock(mutex_);
  if (open_ || wanted_ || !waits_without_session_ || ++missed_ < misses_) return false;
  missed_ = 0;
  misses_ = std::min(misses_ * 2, std::uint32_t{1} << 20);
  return wanted_ = true;
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

bool Outbox::wants_session() const {
  std::lock_guard lock(mutex_);
  return wanted_ || !queue_.empty();
}

bool Outbox::hold() {
  std::lock_guard lock(mutex_);
  if (writer_ == Writer::sender) return false;
  writer_ = Writer::lane;
  return true;
}

std::optional<Message> Outbox::take() {
  std::lock_guard lock(mutex_);
  bytes_ -= std::exchange(taken_bytes_, 0);
  std::optional<Message> message = queue_.take();
  if (message)
    taken_bytes_ = size_of(*message);
  else
    writer_ = Writer::nobody;
  return message;
}

void Outbox::put_back(Message message) {
  std::lock_guard lock(mutex_);
  taken_bytes_ = 0;
  queue_.put_back(std::move(message));
}

bool Outbox::rest() {
  std::lock_guard lock(mutex_);
  writer_ = Writer::nobody;
  return wanted_ || !queue_.empty();
}

void Outbox::open(Direct direct, Write write) {
  std::lock_guard lock(mutex_);
  open_ = true;
  direct_ = std::move(direct);
  write_ = std::move(write);
  writer_ = Writer::lane;
  ++sessions_;
  wanted_ = false;
  misses_ = kFirstMisses;
}

void Outbox::reset() {
  SendQueue lost;  // payloads end outside of the lock: their owners may be large
  std::lock_guard lock(mutex_);
  open_ = false;
  direct_ = nullptr;
  write_ = nullptr;
  writer_ = Writer::nobody;
  ++sessions_;
  wanted_ = false;
  bytes_ = taken_bytes_ = 0;
  std::swap(lost, queue_);
}

}  // namespace gpunode::transport::detail
