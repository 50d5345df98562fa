// The floats that are handed around: a partial sum on its way into the all-reduce, a result on its
// way out. Here, so that who computes them need not know how they travel.
#pragma once

#include <memory>
#include <vector>

namespace gpunode::collective {

// Shared, immutable vector of fp32: a partial sum or a result.
using SharedFloats = std::shared_ptr<const std::vector<float>>;

}  // namespace gpunode::collective
