// An NVIDIA GPU as a backend. Opened at run time: a binary built with nvcc starts and works where
// no driver is. Every operation of our models has a kernel (toolkit/kernel_table.hpp); matrix products
// are cuBLASLt's where that can be opened.
#pragma once

#include <memory>
#include <string>

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

// Whose matrix products a GPU runs; which it is, is in Capabilities::library.
enum class Products {
  fastest,  // cuBLASLt's, or ours where it is not found
  own,
};

// GPUs that the driver shows. Fails with: unsupported (built without CUDA), no_device (no driver, or it
// shows none), unavailable (a driver that does not serve this build), each with a sentence for the user.
Result<int> device_count();

// Fails with: what device_count() fails with; no_device (no such GPU), unsupported (one too old),
// internal.
Result<std::unique_ptr<ops::Backend>> open_backend(int ordinal = 0,
                                                   Products products = Products::fastest);

// Where that GPU sits, as the driver writes it ("0000:0a:00.0"): NVML numbers devices otherwise.
// Fails as open_backend() does.
Result<std::string> pci_bus_id(int ordinal);

}  // namespace gpunode::cuda
