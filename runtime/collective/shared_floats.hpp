// The floats that are handed around: a partial sum on its way into the all-reduce, a result on its
// way out. Here, so that who computes them need not know how they travel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/bytes.hpp"

namespace gpunode::collective {

// Shared, immutable vector of fp32: a partial sum or a result.
using SharedFloats = std::shared_ptr<const std::vector<float>>;

// Consecutive elements of such a vector.
struct Elements {
  std::uint64_t first = 0, count = 0;
};

inline ByteView part_bytes(const SharedFloats& floats, Elements part) {
  return std::as_bytes(std::span(*floats).subspan(part.first, part.count));
}

}  // namespace gpunode::collective
