#include "runtime/base/clock.hpp"

#include <ctime>

namespace gpunode {

Time SystemClock::now() const {
  timespec spec{};
  clock_gettime(CLOCK_BOOTTIME, &spec);
  return Time(std::chrono::seconds(spec.tv_sec) + std::chrono::nanoseconds(spec.tv_nsec));
}

std::chrono::system_clock::time_point SystemClock::wall() const {
  return std::chrono::system_clock::now();
}

std::string utc_text(std::chrono::system_clock::time_point time, const char* form) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, form, &parts)};
}

}  // namespace gpunode
