// CreditWindow: how much of one session may be under way to a peer that has not said yet that it
// took it. Exists because what is in flight must stay in the cache: with all of a gradient handed
// to ZeroMQ at once the same exchange takes half as long again. Pure; owned by its session.
//
// Both ends count bytes of data since the session began. The receiver tells its count in every
// frame that it sends anyway, and by a frame of its own once half a window is untold. A
// window that is used up while round trips are as short as ever is too small for a long link and
// grows; one that makes them three times longer only fills queues and shrinks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/base/clock.hpp"

namespace gpunode::transport::detail {

class CreditWindow {
 public:
  static constexpr std::uint64_t kSmallest = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kLargest = std::uint64_t{64} << 20;

  // How many sessions share the caches. Measured on one machine, 64 MiB: with one peer 8 MiB under
  // way are a third faster than 1 MiB, as reading and summing then overlap; with three they are a
  // fifth slower.
  void share(std::size_t sessions) {
    least_ = std::max(kSmallest, (kSmallest * 8) / std::max<std::size_t>(sessions * sessions, 1));
    window_ = std::max(window_, least_);
  }

  // Sending. A message larger than the window may go alone.
  bool may_send() const { return sent_ - credited_ < window_; }
  void on_sent(Time now, std::uint64_t bytes);
  // The peer has taken that many bytes since the session began. False: more than was sent.
  bool on_credit(Time now, std::uint64_t taken);
  std::uint64_t window() const { return window_; }

  // Receiving. True when the count must be told by a frame of its own.
  bool on_taken(std::uint64_t bytes) {
    taken_ += bytes;
    return taken_ - told_ >= kSmallest / 2;
  }
  // The count for a frame that is about to be sent.
  std::uint64_t tell() { return told_ = taken_; }

 private:
  struct Mark {
    std::uint64_t at = 0;  // bytes sent when it was set
    Time when{};
  };
  void take_sample(Time now);

  std::uint64_t least_ = kSmallest;
  std::uint64_t window_ = kSmallest;
  std::uint64_t sent_ = 0;
  std::uint64_t credited_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t told_ = 0;
  std::optional<Mark> mark_;
  bool shut_ = false;    // since the mark was set
  Duration shortest_{};  // round trip; zero: none measured
  Time shortest_at_{};
};

}  // namespace gpunode::transport::detail
