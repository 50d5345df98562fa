// The training step of one node without network, actors and prefetching: the product's layered pass
// over all slices, the fixed tree, AdamW. It exists to measure and to check the numerics. Owns one
// thread a worker besides the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/compute/device_state.hpp"
#include "actors/compute/layered_pass.hpp"
#include "kernels/model/model.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::bench {

struct TrainerOptions {
  std::uint64_t seed = 1;
  std::size_t batch = 12;  // samples a step
  std::size_t slices = 4;  // G, divides batch
  int workers = 2;
  model::AdamwOptions optimizer;
};

struct StepReport {
  double loss = 0;  // mean over the step's tokens
  model::StepOutcome outcome;
};

class LocalTrainer {
 public:
  static Result<std::unique_ptr<LocalTrainer>> open(const model::Model& model,
                                                    ops::Backend& backend, TrainerOptions options);

  // One step, numbered from 1, over windows of `text` in the product's order: the start of the
  // window at each position is the dataset's shuffle of all starts.
  Result<StepReport> step(std::uint64_t number, std::span<const std::uint8_t> text);
  // Mean loss over all disjoint windows of `text`.
  Result<double> evaluate(std::span<const std::uint8_t> text);
  std::span<const float> weights() const { return state_.weights(); }

 private:
  LocalTrainer(const model::Model& model, ops::Backend& backend, TrainerOptions options);

  const model::Model& model_;
  TrainerOptions options_;
  compute::WorkerPool pool_;
  std::unique_ptr<compute::Device> device_;
  model::Adamw optimizer_;
  std::unique_ptr<model::Program> program_;
  std::unique_ptr<compute::LayeredPass> pass_;
  compute::DeviceState state_;
  std::vector<compute::PassNode> root_;  // the one node: the sum over all slices
};

}  // namespace gpunode::bench
