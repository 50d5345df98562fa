// What a member tells, in its DONE, of how long its step took: quantised, built once, the same at
// every receiver. From the compute times every member derives the next slice plan alike
// (paced_plan.hpp); the rest explains a job's speed to people.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/clock.hpp"

namespace gpunode::collective {

// A measured time as it is told: whole microseconds, at most 71 minutes.
inline std::uint32_t microseconds(Duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, 0xffffffff));
}

constexpr std::uint16_t kNoRank = 0xffff;

// The computing of one step on one member, so far.
struct ComputeTimes {
  std::uint32_t compute_us = 0;  // waiting for data included
  std::uint32_t data_us = 0;     // of it, waiting for samples
  std::uint16_t slices = 0;      // computed in that time; what was kept of earlier does not count
  std::uint16_t workers = 1;     // slices that are computed at a time
  bool operator==(const ComputeTimes&) const = default;
};

// What a member knows of the step before, when it says DONE.
struct AfterTimes {
  std::uint32_t confirm_us = 0;  // from its own DONE to that of the last member
  std::uint32_t apply_us = 0;    // the update of the state
  std::uint32_t sent_kib = 0;
  std::uint32_t received_kib = 0;
  bool operator==(const AfterTimes&) const = default;
};

struct StepTimes {
  ComputeTimes compute;
  std::uint32_t gather_us = 0;        // from its last partial sum to the whole result
  std::uint16_t last_rank = kNoRank;  // whose partial sums came last here, itself included
  std::uint32_t last_us = 0;          // how long after all others'
  AfterTimes before;
  std::uint64_t site = 0;  // where the sender is: equal for those near one another; 0: alone
  bool has_group = false;  // its device is in the view's group (runtime/job/device_link.hpp)
  bool operator==(const StepTimes&) const = default;
};

}  // namespace gpunode::collective
