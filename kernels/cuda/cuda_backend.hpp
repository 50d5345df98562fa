// An NVIDIA GPU as a backend. Opened at run time: a binary built with nvcc starts and works where
// no driver is. Holds the operations that have a CUDA twin (toolkit/kernel_table.hpp, and matmul);
// where others are missing, a node takes the CPU's backend (actors/node/node.cpp).
#pragma once

#include <memory>

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

// Fails with: unsupported (built without CUDA), no_device (no driver, or no such GPU), each with a
// sentence for the user; internal.
Result<std::unique_ptr<ops::Backend>> open_backend(int ordinal = 0);

}  // namespace gpunode::cuda
