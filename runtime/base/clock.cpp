#include "runtime/base/clock.hpp"

#include <time.h>

namespace gpunode {

Time SystemClock::now() const {
  timespec spec{};
  clock_gettime(CLOCK_BOOTTIME, &spec);
  return Time(std::chrono::seconds(spec.tv_sec) + std::chrono::nanoseconds(spec.tv_nsec));
}

std::chrono::system_clock::time_point SystemClock::wall() const {
  return std::chrono::system_clock::now();
}

}  // namespace gpunode
