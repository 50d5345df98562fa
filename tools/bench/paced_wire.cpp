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

PacedWire::PacedWire(std::uint16_t members, Deliver deliver)
    : deliver_(std::move(deliver)), entry_free_at_(members) {
  for (std::uint16_t member = 0; member < members; ++member)
    exits_.push_back(std::make_unique<Exit>());
  for (std::uint16_t member = 0; member < members; ++member)
    exits_[member]->thread = std::thread([this, member] { carry(member); });
}

PacedWire::~PacedWire() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (auto& exit : exits_) exit->changed.notify_all();
  for (auto& exit : exits_) exit->thread.join();
}

void PacedWire::set_rate(double bytes_a_second) {
  std::lock_guard lock(mutex_);
  rate_ = bytes_a_second;
}

void PacedWire::send(std::uint16_t from, std::uint64_t step, collective::SendTo message) {
  const bool urgent = !std::holds_alternative<collective::PartialChunk>(message.message);
  std::lock_guard lock(mutex_);
  Exit& exit = *exits_[from];
  (urgent ? exit.urgent : exit.others).push_back({step, std::move(message)});
  exit.changed.notify_one();
}

std::uint64_t PacedWire::sent_bytes(std::uint16_t member) const {
  std::lock_guard lock(mutex_);
  return exits_[member]->sent;
}

void PacedWire::carry(std::uint16_t member) {
  Exit& exit = *exits_[member];
  std::unique_lock lock(mutex_);
  for (;;) {
    exit.changed.wait(lock, [&] { return stop_ || !exit.urgent.empty() || !exit.others.empty(); });
    if (stop_) return;
    auto& queue = exit.urgent.empty() ? exit.others : exit.urgent;
    Waiting waiting = std::move(queue.front());
    queue.pop_front();
    const std::size_t bytes = payload_bytes(waiting.send.message);
    exit.sent += bytes;
    if (rate_ > 0) {
      // The last byte is in when it has left here, and when what others send there is in too. A
      // thread that wakes up late does not slow the wire down.
      const auto takes = std::chrono::duration_cast<Duration>(
          std::chrono::duration<double>(static_cast<double>(bytes) / rate_));
      const Time now = clock_.now();
      Time& entry = entry_free_at_[waiting.send.rank];
      if (now - exit.free_at > takes) exit.free_at = now;
      if (now - entry > takes) entry = now;
      exit.free_at += takes;
      entry = std::max(entry + takes, exit.free_at);
      const Time arrival = entry;
      lock.unlock();
      std::this_thread::sleep_for(arrival - clock_.now());
    } else {
      lock.unlock();
    }
    deliver_(member, waiting.send.rank, waiting.step, waiting.send.message);
    waiting = {};
    lock.lock();
  }
}

}  // namespace gpunode::bench
