// The training step of one node without network or actors: slices on lanes, the fixed tree, AdamW.
// It exists to measure and to check the numerics; the product's step is actors/compute. Owns one
// thread a lane besides the caller's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kernels/model/model.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::bench {

// A few threads that run the tasks of one call at a time; the caller is lane 0.
class LanePool {
 public:
  explicit LanePool(int lanes);
  ~LanePool();
  int lanes() const { return static_cast<int>(threads_.size()) + 1; }
  void run(std::size_t count, const std::function<void(int lane, std::size_t index)>& task);

 private:
  void work(int lane);
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int, std::size_t)>* task_ = nullptr;
  std::size_t count_ = 0, next_ = 0, running_ = 0;
  std::uint64_t round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

struct TrainerOptions {
  std::uint64_t seed = 1;
  std::size_t batch = 12;  // samples a step
  std::size_t slices = 4;  // G, divides batch
  int lanes = 2;
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
  std::span<const float> weights() const { return weights_; }
  model::Program& program() { return *program_; }

 private:
  LocalTrainer(const model::Model& model, ops::Backend& backend, TrainerOptions options);
  void sum_slices();

  const model::Model& model_;
  ops::Backend& backend_;
  TrainerOptions options_;
  LanePool pool_;
  model::Adamw optimizer_;
  std::unique_ptr<model::Program> program_;
  std::unique_ptr<tensor::Stream> stream_;
  std::vector<float> weights_;
  std::vector<std::vector<float>> gradients_;  // one a slice; the first becomes the sum
};

}  // namespace gpunode::bench
