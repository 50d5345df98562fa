// Time as an argument. Pure state machines are told `now`; only drivers ask a Clock. Time is
// counted from an arbitrary origin on a clock that goes on during suspend (CLOCK_BOOTTIME).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpunode {

using Duration = std::chrono::nanoseconds;
struct ClockOrigin {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  static constexpr bool is_steady = true;
};
using Time = std::chrono::time_point<ClockOrigin, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // Seconds since 1970 UTC, for records that people and other machines read (token expiry).
  virtual std::chrono::system_clock::time_point wall() const = 0;
};

// A time of day in UTC, in a form of strftime().
std::string utc_text(std::chrono::system_clock::time_point time, const char* form);

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  Time now() const override;
  std::chrono::system_clock::time_point wall() const override;
};

// The twin for tests: stands still until told.
class FakeClock final : public Clock {
 public:
  Time now() const override { return now_; }
  std::chrono::system_clock::time_point wall() const override { return wall_; }
  void advance(Duration by) {
    now_ += by;
    wall_ += std::chrono::duration_cast<std::chrono::system_clock::duration>(by);
  }

 private:
  Time now_{};
  std::chrono::system_clock::time_point wall_{std::chrono::seconds(1'700'000'000)};
};

}  // namespace gpunode
