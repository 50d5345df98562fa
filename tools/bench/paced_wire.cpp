#include "tools/bench/paced_wire.hpp"

#include <algorithm>
#include <limits>

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

// By chunk, a result before partial sums; DONE follows what it is about.
std::uint64_t PacedWire::order_of(const Waiting& waiting) {
  const collective::ExchangeMessage& message = waiting.send.message;
  if (const auto* partial = std::get_if<collective::PartialChunk>(&message))
    return 2 * std::uint64_t{partial->chunk} + 1;
  if (const auto* result = std::get_if<collective::ResultChunk>(&message))
    return 2 * std::uint64_t{result->chunk};
  return std::numeric_limits<std::uint64_t>::max();
}

PacedWire::PacedWire(std::uint16_t members, Deliver deliver)
    : deliver_(std::move(deliver)), exits_(members), entries_(members) {
  for (std::uint16_t member = 0; member < members; ++member) {
    exits_[member].thread = std::thread([this, member] { send_out(member); });
    entries_[member].thread = std::thread([this, member] { bring_in(member); });
  }
}

PacedWire::~PacedWire() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (std::deque<End>* ends : {&exits_, &entries_})
    for (End& end : *ends) {
      end.changed.notify_all();
      end.thread.join();
    }
}

void PacedWire::set_rate(double bytes_a_second) {
  std::lock_guard lock(mutex_);
  rate_ = bytes_a_second;
}

void PacedWire::send(std::uint16_t from, std::uint64_t step, collective::SendTo message) {
  std::lock_guard lock(mutex_);
  End& exit = exits_[from];
  Waiting waiting{from, step, std::move(message), {}};
  const auto place = std::ranges::upper_bound(exit.waiting, order_of(waiting), {}, order_of);
  exit.waiting.insert(place, std::move(waiting));
  exit.changed.notify_one();
}

std::uint64_t PacedWire::sent_bytes(std::uint16_t member) const {
  std::lock_guard lock(mutex_);
  return exits_[member].sent;
}

Duration PacedWire::takes(const Waiting& waiting) const {
  if (rate_ <= 0) return {};
  const auto bytes = static_cast<double>(payload_bytes(waiting.send.message));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bytes / rate_));
}

std::optional<PacedWire::Waiting> PacedWire::next_at(End& end, std::unique_lock<std::mutex>& lock) {
  end.changed.wait(lock, [&] { return stop_ || !end.waiting.empty(); });
  if (stop_) return std::nullopt;
  std::optional<Waiting> next(std::move(end.waiting.front()));
  end.waiting.pop_front();
  return next;
}

// A thread that wakes up late does not slow the wire down: times follow from the times before.
void PacedWire::send_out(std::uint16_t member) {
  End& exit = exits_[member];
  std::unique_lock lock(mutex_);
  while (auto next = next_at(exit, lock)) {
    Waiting& waiting = *next;
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
    End& entry = entries_[waiting.send.rank];
    entry.waiting.push_back(std::move(waiting));
    entry.changed.notify_one();
  }
}

// The last byte is in when it has left over there, and when what others sent here is in too.
void PacedWire::bring_in(std::uint16_t member) {
  End& entry = entries_[member];
  std::unique_lock lock(mutex_);
  while (auto waiting = next_at(entry, lock)) {
    entry.free_at = std::max(entry.free_at + takes(*waiting), waiting->left);
    const Duration rest = entry.free_at - clock_.now();
    lock.unlock();
    if (rest > Duration{}) std::this_thread::sleep_for(rest);
    deliver_(waiting->from, member, waiting->step, waiting->send.message);
    waiting.reset();
    lock.lock();
  }
}

}  // namespace gpunode::bench
