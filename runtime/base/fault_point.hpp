// Named places where a test may strike. Production installs no hook and pays one relaxed load;
// the test-only build of the binary (tests/support) installs one that kills the process, fails the
// write or skews the clock at the named point.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace gpunode {

using FaultHook = void (*)(std::string_view point, std::uint64_t step);
inline std::atomic<FaultHook> fault_hook{nullptr};

inline void fault_point(std::string_view point, std::uint64_t step) {
  if (FaultHook hook = fault_hook.load(std::memory_order_relaxed)) hook(point, step);
}

}  // namespace gpunode
