// AdamW over the flat parameter vector: warm-up, cosine decay, clipping by the global norm.
// Everything is a function of (step, summed gradient, token count, state): learning rate and bias
// correction never accumulate, so a restored or late member computes the same bits. The work is cut
// into blocks whose borders follow from the parameter count alone; threads may take different ones.
// Memory: two fp32 values a parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::model {

struct AdamwOptions {
  double peak_rate = 1e-3;           // learning rate after warm-up
  double min_rate = 1e-4;            // learning rate at and after total_steps
  std::uint64_t warmup_steps = 100;  // linear from 0
  std::uint64_t total_steps = 2000;  // end of the cosine; counts from step 1
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters whose spec says `decay`
  double clip = 1.0;          // largest global norm of the mean gradient; 0 = never clip
};

// Learning rate of `step` (first step is 1); the same bits on every machine.
double learning_rate(const AdamwOptions& options, std::uint64_t step);

// Runs task(0) .. task(count-1), in any order and on any threads, and returns when all are done.
using Parallel = std::function<void(std::size_t count, const std::function<void(std::size_t)>&)>;
// The calling thread does them all, in order.
Parallel serial();

struct StepOutcome {
  bool skipped = false;      // the sum held an infinity or NaN: weights and state are unchanged
  double gradient_norm = 0;  // of the mean gradient, before clipping
  double learning_rate = 0;
  double scale = 0;  // of the sum: 1 / tokens, times what clipping leaves
};

class Adamw {
 public:
  // `backend` is the one whose memory the spans below lie in (the CPU's) and outlives this object.
  Adamw(const std::vector<ParameterSpec>& parameters, AdamwOptions options, ops::Backend& backend);

  // One update. `gradient_sum` is the sum over `token_count` tokens; it is scaled here, once.
  StepOutcome apply(std::uint64_t step, std::span<const float> gradient_sum,
                    std::uint64_t token_count, std::span<float> parameters,
                    const Parallel& parallel = serial());

  // The pieces of apply(), for whoever makes an update part by part, or beside the state: the norm
  // of a step from the squares of all blocks, and one block's update with the scale that follows.
  // Thread: any, different blocks at the same time.
  struct Values {  // whole vectors, of which a block is updated
    std::span<float> weights, first, second;
  };
  std::size_t block_count() const { return blocks_.size(); }
  ElementRange block(std::size_t index) const {
    return {blocks_[index].begin, blocks_[index].end - blocks_[index].begin};
  }
  double square_sum(std::size_t block, std::span<const float> gradient_sum) const;
  StepOutcome outcome_of(std::uint64_t step, std::uint64_t token_count,
                         std::span<const double> squares) const;
  void update(std::size_t block, std::uint64_t step, double scale,
              std::span<const float> gradient_sum, const Values& values) const;
  // Takes over moments that were made elsewhere, and gives its own for them.
  void swap_moments(std::vector<float>& first, std::vector<float>& second) {
    GPUNODE_CHECK(first.size() == first_.size() && second.size() == second_.size(),
                  "adamw: wrong number of moments");
    first_.swap(first);
    second_.swap(second);
  }

  const AdamwOptions& options() const { return options_; }
  // The state, in parameter order; mutable so that a checkpoint or a snapshot can be restored.
  std::span<float> first_moment() { return first_; }
  std::span<float> second_moment() { return second_; }
  std::span<const float> first_moment() const { return first_; }
  std::span<const float> second_moment() const { return second_; }

 private:
  struct Block {  // consecutive elements of one parameter
    std::size_t begin, end;
    bool decay;
  };
  AdamwOptions options_;
  ops::Backend& backend_;
  std::vector<Block> blocks_;
  std::vector<float> first_, second_;
};

}  // namespace gpunode::model
