// The hostile device's table: each entry checks a call, puts the addresses that only the device knows
// in place of those it was given, and queues the CPU's operation.
#pragma once

#include "kernels/ops/operation_list.hpp"
#include "tests/parity/hostile/hostile_device.hpp"

namespace gpunode::hostile {

ops::Operations late_operations(const ops::Operations& arithmetic);

}  // namespace gpunode::hostile
