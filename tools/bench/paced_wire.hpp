// A wire among members of one process that carries so many bytes a second out of each of them, and
// as many in; results overtake partial sums as they do on the product's links. Exists so that a
// slow link can be had anywhere, without rights and without its noise. Owns two threads a member.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/collective/all_reduce.hpp"

namespace gpunode::bench {

class PacedWire {
 public:
  // Called on the wire's threads when the last byte of the message has arrived.
  using Deliver = std::function<void(std::uint16_t from, std::uint16_t to, std::uint64_t step,
                                     const collective::ExchangeMessage& message)>;
  PacedWire(std::uint16_t members, Deliver deliver);
  ~PacedWire();

  // Bytes a second each way; 0: as fast as it goes. Only while nothing is under way.
  void set_rate(double bytes_a_second);
  void send(std::uint16_t from, std::uint64_t step, collective::SendTo message);
  // Payload bytes that a member has sent so far.
  std::uint64_t sent_bytes(std::uint16_t member) const;

 private:
  struct Waiting {
    std::uint16_t from = 0;
    std::uint64_t step = 0;
    collective::SendTo send;
    Time left{};  // its last byte
  };
  static std::uint64_t order_of(const Waiting& waiting);
  // A member's way out, whose messages wait by order, or its way in.
  struct End {
    std::deque<Waiting> waiting;
    Time free_at{};          // when its last byte has left, or is in
    std::uint64_t sent = 0;  // out
    std::condition_variable changed;
    std::thread thread;
  };
  // The next message that waits there; none: the wire stops.
  std::optional<Waiting> next_at(End& end, std::unique_lock<std::mutex>& lock);
  Duration takes(const Waiting& waiting) const;
  void send_out(std::uint16_t member);
  void bring_in(std::uint16_t member);

  Deliver deliver_;
  SystemClock clock_;
  mutable std::mutex mutex_;
  double rate_ = 0;
  bool stop_ = false;
  std::deque<End> exits_, entries_;  // by member
};

}  // namespace gpunode::bench
