// Memory for a model's weights, or for those of one part of it: first the host's, where they are read to,
// then the device's.
#pragma once

#include <memory>

#include "actors/compute/device_roster.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::inference {

inline constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 62;

// The device's own where that is the CPU. Fails with: out_of_memory.
Result<tensor::Buffer> host_room(const compute::NodeDevice& device, std::size_t bytes);
// Itself where it is the device's own, else a copy there of so many bytes. Fails with: out_of_memory,
// device_lost.
Result<std::shared_ptr<const tensor::Buffer>> on_device(const compute::NodeDevice& device,
                                                        tensor::Buffer image, std::size_t bytes);

inline MutableByteView bytes_in(tensor::Buffer& buffer, std::size_t bytes) {
  return {buffer.as<std::byte>(), bytes};
}

}  // namespace gpunode::inference
