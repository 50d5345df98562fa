// The CPU as a backend: the whole table of operations, each run by the calling thread alone
// (callers parallelise over slices or blocks). Instruction set is chosen at run time from what the
// processor has; own code gives the same bits with each of them, oneDNN's products may differ.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/ops/backend.hpp"

namespace gpunode::cpu {

std::unique_ptr<ops::Backend> open_backend();

}  // namespace gpunode::cpu
