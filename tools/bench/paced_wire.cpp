#include "tools/bench/paced_wire.hpp"

#include <algorithm>

namespace gpunode::bench {

namespace {

std::size_t payload_bytes(const collective::ExchangeMessage& message) {
  if (const auto* partial = std::get_if<collective::PartialChunk>(&message))
    return partial->payload.size();
  if (const auto* result = std::get_if<collective::ResultChunk>(&message))
    return result->payload.size();
  return 64;
}

}  // namespace

PacedWire::PacedWire(std::uint16_t members, Deliver deliver) : deliver_(std::move(deliver)) {
  for (std::uint16_t member = 0; member < members; ++member) {
    exits_.push_back(std::make_unique<Exit>());
    entries_.push_back(std::make_unique<Entry>());
  }
  for (std::uint16_t member = 0; member < members; ++member) {
    exits_[member]->thread = std::thread([this, member] { send_out(member); });
    entries_[member]->thread = std::thread([this, member] { bring_in(member); });
  }
}

PacedWire::~PacedWire() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (auto& exit : exits_) exit->changed.notify_all();
  for (auto& entry : entries_) entry->changed.notify_all();
  for (auto& exit : exits_) exit->thread.join();
  for (auto& entry : entries_) entry->thread.join();
}

void PacedWire::set_rate(double bytes_a_second) {
  std::lock_guard lock(mutex_);
  rate_ = bytes_a_second;
}

void PacedWire::send(std::uint16_t from, std::uint64_t step, collective::SendTo message) {
  const bool urgent = !std::holds_alternative<collective::PartialChunk>(message.message);
  std::lock_guard lock(mutex_);
  Exit& exit = *exits_[from];
  (urgent ? exit.urgent : exit.others).push_back({from, step, std::move(message), {}});
  exit.changed.notify_one();
}

std::uint64_t PacedWire::sent_bytes(std::uint16_t member) const {
  std::lock_guard lock(mutex_);
  return exits_[member]->sent;
}

Duration PacedWire::takes(const Waiting& waiting) const {
  if (rate_ <= 0) return {};
  const auto bytes = static_cast<double>(payload_bytes(waiting.send.message));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bytes / rate_));
}

// A thread that wakes up late does not slow the wire down: times follow from the times before.
void PacedWire::send_out(std::uint16_t member) {
  Exit& exit = *exits_[member];
  std::unique_lock lock(mutex_);
  for (;;) {
    exit.changed.wait(lock, [&] { return stop_ || !exit.urgent.empty() || !exit.others.empty(); });
    if (stop_) return;
    auto& queue = exit.urgent.empty() ? exit.others : exit.urgent;
    Waiting waiting = std::move(queue.front());
    queue.pop_front();
    exit.sent += payload_bytes(waiting.send.message);
    const Duration needed = takes(waiting);
    const Time now = clock_.now();
    if (now - exit.free_at > needed) exit.free_at = now;
    waiting.left = exit.free_at += needed;
    if (needed > Duration{}) {
      lock.unlock();
      std::this_thread::sleep_for(waiting.left - now);
      lock.lock();
    }
    Entry& entry = *entries_[waiting.send.rank];
    entry.waiting.push_back(std::move(waiting));
    entry.changed.notify_one();
  }
}

// The last byte is in when it has left over there, and when what others sent here is in too.
void PacedWire::bring_in(std::uint16_t member) {
  Entry& entry = *entries_[member];
  std::unique_lock lock(mutex_);
  for (;;) {
    entry.changed.wait(lock, [&] { return stop_ || !entry.waiting.empty(); });
    if (stop_) return;
    Waiting waiting = std::move(entry.waiting.front());
    entry.waiting.pop_front();
    entry.free_at = std::max(entry.free_at + takes(waiting), waiting.left);
    const Duration rest = entry.free_at - clock_.now();
    lock.unlock();
    if (rest > Duration{}) std::this_thread::sleep_for(rest);
    deliver_(waiting.from, member, waiting.step, waiting.send.message);
    waiting = {};
    lock.lock();
  }
}

}  // namespace gpunode::bench
