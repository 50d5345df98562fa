// One line a record on standard error:
//   12:00:01.123 info  membership  node b1c2 joined
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace gpunode::log {

enum class Level { info, warning, error };

std::string_view to_string(Level level);
void write(Level level, std::string_view area, std::string_view text);

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
