// A duration as the job's reports tell it to people: "1.2 s".
#pragma once

#include <cstdio>
#include <string>

#include "runtime/base/clock.hpp"

namespace gpunode::job {

inline std::string seconds_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace gpunode::job
