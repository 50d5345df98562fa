// One line a record on standard error:
//   12:00:01.123 info  membership  node b1c2 joined
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace gpunode::log {

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
