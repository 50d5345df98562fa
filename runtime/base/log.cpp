#include "runtime/base/log.hpp"

#include <cstdio>
#include <mutex>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/base/harmless_text.hpp"

namespace gpunode::log {
namespace {

// Records come also while the process ends: these are never destroyed.
std::mutex& one_record_at_a_time() {
  static auto& mutex = *new std::mutex;
  return mutex;
}
Sink& the_sink() {
  static auto& sink = *new Sink;
  return sink;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ') + ' ';
}

}  // namespace

std::string time_of(const Record& record) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(record.time);
  const auto millis = std::chrono::floor<std::chrono::milliseconds>(record.time - seconds).count();
  char fraction[8];
  std::snprintf(fraction, sizeof fraction, ".%03dZ", static_cast<int>(millis));
  return utc_text(record.time, "%Y-%m-%dT%H:%M:%S") + fraction;
}

std::string line_of(const Record& record) {
  return time_of(record) + ' ' + padded(record.level, 7) + padded(record.area, 10) + record.text +
         '\n';
}

void set_sink(Sink sink) {
  std::lock_guard lock(one_record_at_a_time());
  the_sink() = std::move(sink);
}

void write(std::string_view level, std::string_view area, std::string_view text) {
  const Record record{std::chrono::system_clock::now(), std::string(level), std::string(area),
                      harmless(text)};  // parts of it may be another node's words
  std::lock_guard lock(one_record_at_a_time());
  if (the_sink()) {
    try {
      return the_sink()(record);
    } catch (...) {  // it is the embedder's; the line is not lost for that
    }
  }
  const std::string line = line_of(record);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace gpunode::log
