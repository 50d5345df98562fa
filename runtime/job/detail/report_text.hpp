// Durations and nodes as the job's reports tell them to people: "1.2 s", "node 01ab23cd".
#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::job {

inline std::string seconds_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

inline std::string nodes_text(std::span<const NodeId> nodes) {
  std::string text;
  for (const NodeId& node : nodes) text += (text.empty() ? "node " : ", node ") + node.short_text();
  return text;
}

}  // namespace gpunode::job
