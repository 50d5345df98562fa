// One GPU and its NCCL communicator, through libraries that are opened at run time. All of it may
// block for ever: called in the rank process only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::island {

class NcclDevice {
 public:
  // Opens the libraries and looks for GPUs. `vector` is what sums are made in, and outlives this.
  // Fails with: no_device (no driver, no GPU), not_found (no NCCL), internal.
  static Result<std::unique_ptr<NcclDevice>> open(const std::string& nccl,
                                                  const std::string& driver,
                                                  std::span<float> vector);
  virtual ~NcclDevice() = default;

  // The name of a meeting of devices, which the process must outlive.
  virtual Result<Bytes> make_name() = 0;
  struct Place {
    int rank = 0;
    int member_count = 1;
    int place_on_host = 0;
  };
  // Blocks until all have joined. Fails with: out_of_memory, internal (NCCL's or the driver's own
  // words).
  virtual Result<void> join(ByteView name, const Place& place) = 0;
  // Replaces the vector by the sum of all members' vectors.
  virtual Result<void> sum() = 0;
};

}  // namespace gpunode::island
