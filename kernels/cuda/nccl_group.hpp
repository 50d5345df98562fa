// A device group whose bytes NCCL moves, in a process of its own (runtime/carrier): NCCL may hang and
// take its process along, so nothing of it is in this one. The GPU's memory is opened there by its
// handle, and nothing passes through the host. Built without CUDA too: what is the GPU's own comes
// in by GroupMemory. Costs a process with a context on the GPU (some hundred MB of its memory) a
// group, and about a second to open it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/ops/device_group.hpp"
#include "runtime/carrier/carrier_protocol.hpp"

namespace gpunode::cuda {

// Memory of one GPU that another process can open.
class GroupMemory {
 public:
  virtual ~GroupMemory() = default;
  struct Piece {
    std::byte* place = nullptr;
    carrier::MemoryHandle handle{};
  };
  // At least so many bytes, of an allocation of its own. Fails with: out_of_memory, unavailable.
  virtual Result<Piece> allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* place) = 0;
};

struct NcclGroupOptions {
  std::shared_ptr<GroupMemory> memory;
  std::string pci_bus_id;         // of the GPU
  bool between_machines = false;  // false: NCCL listens on loopback only
  std::string program;            // the carrier's; empty: found (carrier::find_carrier)
};

// Starts the process and has it open NCCL and the GPU. Fails with: unsupported (says what is
// missing).
Result<std::unique_ptr<ops::DeviceGroup>> open_nccl_group(NcclGroupOptions options);

}  // namespace gpunode::cuda
