// The state as it will be after the step under way, made beside the state that stands, part by part
// as the step's sum comes in. Nothing of it shows until take(): only a committed step becomes the
// state, and what is not committed is thrown away. The update is the one that AdamW makes of the
// whole sum as long as that is not clipped, which only the whole sum tells; then take() refuses.
// Owner: the trainer. Memory, from the first part on: the state once more (three values a
// parameter). A part's digest is taken while it is in the cache.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actors/compute/device_state.hpp"
#include "kernels/model/optimizer.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/shared_floats.hpp"

namespace gpunode::compute {

class StagedState {
 public:
  // Both outlive this.
  StagedState(const model::Adamw& optimizer, Device& device)
      : optimizer_(optimizer), device_(device) {}

  // Whether parts of this step's sum, in this vector, were added.
  bool is_of(std::uint64_t step, const collective::SharedFloats& total) const {
    return total_ && step_ == step && total_ == total;
  }
  // Throws away what was there and begins anew: a sum over so many samples, whose last element says
  // what its gradients are divided by. Fails with: out_of_memory.
  Result<void> begin(std::uint64_t step, std::uint64_t samples, collective::SharedFloats total);
  // Elements [first, first + count) of the sum are here; each is told once. What comes before the
  // last element waits for it. `standing` is the state as it is. Fails with: internal.
  Result<void> add(std::uint64_t first, std::uint64_t count, const DeviceState& standing);
  // So many of the first weights are made.
  std::size_t ready() const { return ready_; }
  std::span<const float> weights() const { return made_.weights(); }
  // What was made becomes the state; nothing where parts are missing, or where the sum must be
  // clipped or skipped: then all stays as it was. Fails with: internal.
  Result<std::optional<model::StepOutcome>> take(DeviceState& standing);
  // After take(): digest_of_state() of it.
  Digest digest() const;
  void drop() { total_.reset(); }

 private:
  Result<void> add_part(const model::ElementRange& part, const DeviceState& standing);
  model::SumOf over() const { return {total_.host().back(), static_cast<double>(samples_)}; }
  Result<void> make(const std::vector<std::size_t>& blocks, const DeviceState& standing);
  Result<void> hash_whole_blocks(std::span<const std::size_t> made);

  const model::Adamw& optimizer_;
  Device& device_;
  std::uint64_t step_ = 0, samples_ = 1;
  bool weight_is_here_ = false;
  std::vector<model::ElementRange> waiting_;  // for it
  collective::SharedFloats total_;            // null: nothing was begun
  DeviceState made_;
  tensor::Buffer sum_;      // on a device of its own memory: parts of the sum that are here
  tensor::Buffer squares_;  // by block of the optimizer
  std::vector<std::size_t> missing_;  // elements, by block of the optimizer
  std::size_t blocks_left_ = 0;
  std::size_t first_missing_ = 0;  // block of the optimizer
  std::size_t ready_ = 0;
  std::vector<std::size_t> unhashed_;  // bytes, by block of the digest
  std::vector<Digest> digests_;
};

}  // namespace gpunode::compute
