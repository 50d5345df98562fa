// The training state in a device's memory: weights, first and second moments, one after the other
// in one piece, so that what is proven, sent and stored is a range of bytes.
#pragma once

#include <span>
#include <vector>

#include "actors/compute/device.hpp"
#include "kernels/model/optimizer.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::compute {

class DeviceState {
 public:
  // Of so many parameters; contents unspecified. Fails with: out_of_memory.
  static Result<DeviceState> allocate(Device& device, std::size_t count);

  std::size_t count() const { return count_; }
  std::span<float> weights() const { return part(0, 1); }
  std::span<float> all() const { return part(0, 3); }
  ByteView bytes() const { return std::as_bytes(all()); }
  model::Adamw::Values values() const { return {part(0, 1), part(1, 1), part(2, 1)}; }

 private:
  std::span<float> part(std::size_t first, std::size_t parts) const {
    return {memory_.as<float>() + first * count_, parts * count_};
  }
  tensor::Buffer memory_;
  std::size_t count_ = 0;
};

// Writes the digests of these blocks of the state (ascending) to digests[block].
// Fails with: internal, out_of_memory.
Result<void> digest_blocks_of(Device& device, const DeviceState& state,
                              std::span<const std::size_t> blocks, std::span<Digest> digests);
// block_digest_of() the state's bytes. Fails with: as above.
Result<Digest> digest_of_state(Device& device, const DeviceState& state);

}  // namespace gpunode::compute
