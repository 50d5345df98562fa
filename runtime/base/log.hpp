// What the program says of its work, a record a line, in UTC:
//   2026-11-25T12:00:01.123Z info    membership  node b1c2 joined
// Records go to standard error until somebody takes them. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace gpunode::log {

struct Record {
  std::chrono::system_clock::time_point time;
  std::string level, area, text;  // the text is harmless (harmless_text.hpp)
};

// "2026-11-25T12:00:01.123Z"
std::string time_of(const Record& record);
// As above, with a line end.
std::string line_of(const Record& record);

// Where records go from now on; null: to standard error, as does one at which the sink throws. Called by one
// thread at a time, which must not log in it.
using Sink = std::function<void(const Record&)>;
void set_sink(Sink sink);

void write(std::string_view level, std::string_view area, std::string_view text);

inline void info(std::string_view area, std::string_view text) {
  write("info", area, text);
}
inline void warning(std::string_view area, std::string_view text) {
  write("warning", area, text);
}
inline void error(std::string_view area, std::string_view text) {
  write("error", area, text);
}

}  // namespace gpunode::log
