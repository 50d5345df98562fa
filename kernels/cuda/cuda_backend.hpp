// An NVIDIA GPU as a backend. Opened at run time: a binary built with nvcc starts and works where
// no driver is. Holds the operations that have a CUDA twin (toolkit/kernel_table.hpp, and matmul);
// where others are missing, a node takes the CPU's backend (actors/node/node.cpp).
#pragma once

#include <memory>
#include <string>

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

// Fails with: unsupported (built without CUDA), no_device (no driver, or no such GPU), each with a
// sentence for the user; internal.
Result<std::unique_ptr<ops::Backend>> open_backend(int ordinal = 0);

// Where that GPU sits, as the driver writes it ("0000:0a:00.0"): NVML numbers devices otherwise.
// Fails as open_backend() does.
Result<std::string> pci_bus_id(int ordinal);

}  // namespace gpunode::cuda
