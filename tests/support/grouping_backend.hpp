// The CPU as a device that forms groups over NCCL, in whose place, and in the driver's, libraries of
// the tests stand. So that whole nodes carry their sums from device to device where there is none.
#pragma once

#include <memory>

#include "kernels/ops/backend.hpp"

namespace gpunode::testing {

std::unique_ptr<ops::Backend> open_grouping_backend();

}  // namespace gpunode::testing
