// The middle of what was measured.
#pragma once

#include <algorithm>
#include <vector>

namespace gpunode::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace gpunode::bench
