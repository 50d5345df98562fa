// AdamW over the flat parameter vector: warm-up, cosine decay, clipping by the global norm.
// Everything is a function of (step, summed gradient, token count, state): learning rate and bias
// correction never accumulate, so a restored or late member computes the same bits. The work is cut
// into blocks whose borders follow from the parameters alone; threads may take different ones, and
// a device of its own memory does any number side by side in one launch.
// Weights and moments are the caller's, in the memory of the device that computes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/model/model.hpp"
#include "kernels/ops/lane.hpp"

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

// What a sum is over: the divisors of gradients and of what buffers follow.
struct SumOf {
  double weight = 1;   // predicted tokens: LossSum::weight, summed
  double samples = 1;  // raw ones
};

struct StepOutcome {
  // The sum held an infinity or NaN, or nothing was predicted: weights and state are unchanged.
  bool skipped = false;
  double gradient_norm = 0;  // of the mean gradient, before clipping
  double learning_rate = 0;
  double scale = 0;  // of the gradients' sum: 1 / weight, times what clipping leaves
};

class Adamw {
 public:
  // `backend` is the one whose memory all spans below lie in, and outlives this object.
  Adamw(const std::vector<ParameterSpec>& parameters, AdamwOptions options, ops::Backend& backend);

  // What is updated: whole vectors, parameter_count values each, in parameter order.
  struct Values {
    std::span<float> weights, first, second;
  };
  // One update. `gradient_sum` is the sum over `of`; it is scaled here, once. Fails with:
  // out_of_memory, internal; the values are then unspecified.
  Result<StepOutcome> apply(std::uint64_t step, std::span<const float> gradient_sum,
                            const SumOf& of, const Values& values, const ops::Spread& spread);

  // Puts what tells the blocks apart where the device finds it; apply() does so by itself. Fails
  // with: out_of_memory, internal.
  Result<void> place_blocks(const ops::Spread& spread);

  // The pieces of apply(), for whoever makes an update part by part, or beside the state: the norm
  // of a step from the squares of all blocks, and some blocks' update with the scale that follows.
  // The blocks are placed before. Thread: any, different blocks at the same time.
  std::size_t block_count() const { return blocks_.size(); }
  ElementRange block(std::size_t index) const {
    return {blocks_[index].begin, blocks_[index].end - blocks_[index].begin};
  }
  // Blocks that lie side by side.
  struct Blocks {
    std::size_t first = 0, count = 0;
  };
  // So many are one call, where there are as many: on a device all.
  std::size_t blocks_at_once() const { return blocks_at_once_; }
  ElementRange elements_of(const Blocks& blocks) const {
    const std::size_t begin = blocks_[blocks.first].begin;
    return {begin, blocks_[blocks.first + blocks.count - 1].end - begin};
  }
  // Writes each block's sum of squares to squares[block], in the device's memory.
  Result<void> square_sums(ops::Lane& lane, const Blocks& blocks,
                           std::span<const float> gradient_sum, double* squares) const;
  StepOutcome outcome_of(std::uint64_t step, const SumOf& of,
                         std::span<const double> squares) const;
  // How far a step goes: `scale` of a StepOutcome, and samples of its sum.
  struct Reach {
    std::uint64_t step = 1;
    double scale = 1, samples = 1;
  };
  Result<void> update(ops::Lane& lane, const Blocks& blocks, const Reach& reach,
                      std::span<const float> gradient_sum, const Values& values) const;

  std::size_t element_count() const { return element_count_; }

 private:
  struct Block {  // consecutive elements of one parameter
    std::size_t begin, end;
    bool decay;
    ParameterKind kind;
    float momentum;
  };
  ops::BlockTable table_of(const Blocks& blocks) const;
  bool has(const Blocks& blocks, ParameterKind kind) const;
  // Calls task for all blocks, as many at once as may be.
  Result<void> spread_blocks(
      const ops::Spread& spread,
      const std::function<Result<void>(ops::Lane& lane, const Blocks& blocks)>& task) const;
  Result<void> follow(ops::Lane& lane, const Blocks& blocks, double samples,
                      std::span<const float> sum, const Values& values) const;

  AdamwOptions options_;
  std::vector<Block> blocks_;
  std::vector<ops::BlockRow> rows_{};  // the same, as operations read them
  std::size_t blocks_at_once_ = 1;
  std::size_t element_count_ = 0;
  tensor::BufferPool pool_;
  bool is_the_hosts_ = false;  // the device's memory
  tensor::Buffer table_{};     // a copy of the rows, elsewhere
  tensor::Buffer squares_{};   // of apply(), by block
};

// The squares that square_sums() wrote, on the host. Fails with: internal.
Result<std::vector<double>> download_squares(const ops::Spread& spread, const double* squares,
                                             std::size_t count);

}  // namespace gpunode::model
