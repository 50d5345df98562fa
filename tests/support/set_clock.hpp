// A clock that stands where a test sets it.
#pragma once

#include "runtime/base/clock.hpp"

namespace gpunode::testing {

class SetClock final : public Clock {
 public:
  Time now() const override { return time; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  Time time = Time{} + std::chrono::hours(1);
};

}  // namespace gpunode::testing
