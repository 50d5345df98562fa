// GPT made ready on one device: its weights there, scratch for each thread that computes (worker),
// and activations for each slice under way (slot). They share nothing but the weights. Memory
// grows to the largest slice seen and then stays.
#pragma once

#include <vector>

#include "kernels/model/detail/gpt_activations.hpp"
#include "kernels/model/detail/gpt_pass.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::model {

class GptProgram final : public Program {
 public:
  static Result<std::unique_ptr<Program>> open(const Gpt& model, ops::Backend& backend,
                                               int workers);
  GptProgram(const Gpt& model, ops::Backend& backend);

  Result<void> load(std::span<const float> parameters) override;
  Result<float> gradient(int worker, std::span<const Sample> samples,
                         std::span<float> gradient_sum) override;
  void make_slots(std::size_t count) override;
  Result<void> load_part(std::span<const float> parameters, ElementRange part) override;
  Result<float> forward(int worker, std::size_t slot, std::size_t stage,
                        std::span<const Sample> samples) override;
  Result<void> backward(int worker, std::size_t slot, std::size_t stage,
                        std::span<float> part) override;
  Result<double> evaluate(int worker, std::span<const Sample> samples) override;
  Result<std::unique_ptr<Session>> session() override;

  const Gpt& model() const { return model_; }
  ops::Backend& backend() { return backend_; }
  tensor::BufferPool& pool() { return pool_; }
  const GptWeights& weights() const { return weights_; }
  // What must have been done before the weights can be read. Fails with: wrong_state.
  Result<void> require_loaded() const;

 private:
  struct WorkerScratch {
    std::unique_ptr<tensor::Stream> stream;
    tensor::Workspace workspace;
    tensor::Buffer memory{};
    std::size_t samples = 0;  // that the views below are for
    GptScratch scratch{};
  };
  struct Slot {
    tensor::Buffer memory;
    std::size_t samples = 0;  // of the slice, and what the views below are for
    GptActivations activations;
    std::vector<Token> tokens, targets;
    GptBatch batch() const;
  };
  WorkerScratch& scratch_of(int worker);
  Slot& slot_at(std::size_t slot);
  // Makes worker and slot ready for these samples. Fails with: invalid_argument, out_of_memory.
  Result<void> prepare(Slot& slot, std::span<const Sample> samples);
  Result<void> prepare(WorkerScratch& worker, std::size_t samples);
  GptPass pass_of(WorkerScratch& worker, Slot& slot);
  // The loss sum in the last stage, 0 before.
  Result<double> forward_stage(WorkerScratch& worker, Slot& slot, std::size_t stage,
                               bool keep_gradient);

  const Gpt& model_;
  ops::Backend& backend_;
  tensor::BufferPool pool_;
  tensor::Buffer weight_memory_;
  std::unique_ptr<tensor::Stream> stream_;
  GptWeights weights_;
  std::vector<WorkerScratch> workers_;
  std::vector<Slot> slots_;  // a worker's own at least
  bool loaded_ = false;
};

}  // namespace gpunode::model
