// Which of a peer's addresses is dialled next, and after which pause. Pure; owned by the peer.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/base/clock.hpp"

namespace gpunode::transport::detail {

class DialAttempts {
 public:
  std::size_t next_of(std::size_t endpoints) const { return next_ % endpoints; }
  // True when every address has refused, one after the other.
  bool on_failed(bool refused, std::size_t endpoints) {
    ++next_;
    refusals_ = refused ? refusals_ + 1 : 0;
    if (refusals_ < std::max<std::size_t>(1, endpoints)) return false;
    refusals_ = 0;
    return true;
  }
  // Before the next attempt; doubles after each round of all addresses.
  Duration next_pause(std::size_t endpoints, Duration longest) {
    const Duration pause = pause_;
    if (next_ % std::max<std::size_t>(1, endpoints) == 0) pause_ = std::min(pause_ * 2, longest);
    return pause;
  }
  // There is a new address: the first pause is short again.
  void hurry(Duration shortest) { pause_ = shortest; }
  void on_opened(Duration shortest) {
    pause_ = shortest;
    refusals_ = 0;
  }

 private:
  std::size_t next_ = 0;
  std::size_t refusals_ = 0;  // in a row
  Duration pause_{};
};

}  // namespace gpunode::transport::detail
