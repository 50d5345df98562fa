#include "runtime/base/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>

namespace gpunode::log {
namespace {

std::mutex one_line_at_a_time;

}  // namespace

void write(std::string_view level, std::string_view area, std::string_view text) {
  auto now = std::chrono::system_clock::now();
  auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now - seconds).count();
  std::time_t whole = std::chrono::system_clock::to_time_t(seconds);
  std::tm parts{};
  localtime_r(&whole, &parts);
  // Parts of it may be another node's words, which are to forge no line.
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char one) { return one < ' ' || one == 127; }, ' ');
  std::lock_guard lock(one_line_at_a_time);
  std::fprintf(stderr, "%02d:%02d:%02d.%03d %-7.*s %-10.*s %.*s\n", parts.tm_hour, parts.tm_min,
               parts.tm_sec, static_cast<int>(millis), static_cast<int>(level.size()), level.data(),
               static_cast<int>(area.size()), area.data(), static_cast<int>(line.size()),
               line.data());
}

}  // namespace gpunode::log
