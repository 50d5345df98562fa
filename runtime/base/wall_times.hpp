// Which time of day a Time was. Both clocks are compared once and not for each answer, so that an
// event is told with the same time whenever it is asked for; a clock that was set moves them all.
// Pure; owned by whoever tells times.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/clock.hpp"

namespace gpunode {

class WallTimes {
 public:
  // Compares the clocks, unless they still stand to each other as they did.
  void look(const Clock& clock) {
    const Time now = clock.now();
    const auto wall = clock.wall();
    const auto off = wall - wall_ - (now - now_);
    if (off < std::chrono::seconds(1) && off > std::chrono::seconds(-1)) return;
    now_ = now;
    wall_ = wall;
  }
  std::chrono::system_clock::time_point wall(Time time) const { return wall_ + (time - now_); }
  // Since 1970.
  std::int64_t microseconds(Time time) const {
    return std::chrono::floor<std::chrono::microseconds>(wall(time).time_since_epoch()).count();
  }
  double seconds(Time time) const { return static_cast<double>(microseconds(time)) / 1e6; }
  // Of a time that was told in microseconds().
  Time time(std::int64_t microseconds) const {
    return now_ + (std::chrono::microseconds(microseconds) - wall_.time_since_epoch());
  }

 private:
  Time now_{};
  std::chrono::system_clock::time_point wall_{};
};

}  // namespace gpunode
