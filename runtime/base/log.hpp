// The facade over logging. One line a record on standard error or into the node's own sink:
//   12:00:01.123 info  membership  node b1c2 joined
// Thread-safe. A library never configures global logging: the node passes its sink.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpunode::log {

enum class Level { debug, info, warning, error };
using Sink = std::function<void(Level, std::string_view area, std::string_view text)>;

std::string_view to_string(Level level);
void set_sink(Sink sink);     // null restores standard error
void set_level(Level level);  // records below it are dropped; default info
void write(Level level, std::string_view area, std::string_view text);

inline void debug(std::string_view area, std::string_view text) {
  write(Level::debug, area, text);
}
inline void info(std::string_view area, std::string_view text) {
  write(Level::info, area, text);
}
inline void warning(std::string_view area, std::string_view text) {
  write(Level::warning, area, text);
}
inline void error(std::string_view area, std::string_view text) {
  write(Level::error, area, text);
}

}  // namespace gpunode::log
