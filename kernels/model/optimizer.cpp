#include "kernels/model/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/ops/backend.hpp"
#include "kernels/tensor/exact_math.hpp"

namespace gpunode::model {
namespace {

// Elements of a block: enough to outweigh handing it to a thread, few enough to balance threads.
constexpr std::size_t kBlockElements = 32768;

}  // namespace

double learning_rate(const AdamwOptions& options, std::uint64_t step) {
  if (step < options.warmup_steps)
    return options.peak_rate * static_cast<double>(step) /
           static_cast<double>(options.warmup_steps);
  if (step >= options.total_steps) return options.min_rate;
  const double progress = static_cast<double>(step - options.warmup_steps) /
                          static_cast<double>(options.total_steps - options.warmup_steps);
  const double share = 0.5 * (1.0 + tensor::exact_cos(std::numbers::pi * progress));
  return options.min_rate + share * (options.peak_rate - options.min_rate);
}

Adamw::Adamw(const std::vector<ParameterSpec>& parameters, AdamwOptions options,
             ops::Backend& backend)
    : options_(options),
      blocks_at_once_(ops::grain(backend, 1)),
      pool_(backend.memory(), backend.capabilities().memory_bytes),
      is_the_hosts_(backend.capabilities().host_accessible) {
  GPUNODE_CHECK(backend.operations().adamw && backend.operations().square_sum,
                "the optimizer's backend has its operations");
  for (const ParameterSpec& spec : parameters) {
    const std::size_t end = element_count_ + spec.element_count();
    for (std::size_t begin = element_count_; begin < end; begin += kBlockElements)
      blocks_.push_back(
          {begin, std::min(begin + kBlockElements, end), spec.decay, spec.kind, spec.momentum});
    GPUNODE_CHECK(spec.kind == ParameterKind::trained || backend.operations().follow,
                  "the optimizer's backend has what buffers need");
    element_count_ = end;
  }
  const auto decay = static_cast<float>(options_.weight_decay);
  for (const Block& block : blocks_)
    rows_.push_back({.begin = static_cast<std::int64_t>(block.begin),
                     .count = static_cast<std::int64_t>(block.end - block.begin),
                     .decay = block.decay ? decay : 0.0f,
                     .share = block.momentum,
                     .is_buffer = block.kind == ParameterKind::buffer});
}

Result<void> Adamw::place_blocks(const ops::Spread& spread) {
  if (is_the_hosts_ || table_.data()) return {};
  const auto bytes = std::as_bytes(std::span(rows_));
  if (auto grown = pool_.grow(table_, bytes.size()); !grown) return grown;
  return spread(1, [&](ops::Lane& lane, std::size_t) { return lane.upload(bytes, table_.data()); });
}

ops::BlockTable Adamw::table_of(const Blocks& blocks) const {
  GPUNODE_CHECK(is_the_hosts_ || table_.data(), "the blocks are placed before they are used");
  const auto* rows = is_the_hosts_ ? rows_.data() : table_.as<const ops::BlockRow>();
  return {.rows = rows + blocks.first,
          .count = static_cast<std::int64_t>(blocks.count),
          .origin = rows_[blocks.first].begin};
}

bool Adamw::has(const Blocks& blocks, ParameterKind kind) const {
  return std::ranges::any_of(std::span(blocks_).subspan(blocks.first, blocks.count),
                             [&](const Block& block) { return block.kind == kind; });
}

Result<void> Adamw::spread_blocks(
    const ops::Spread& spread,
    const std::function<Result<void>(ops::Lane& lane, const Blocks& blocks)>& task) const {
  const std::size_t most = std::min(blocks_at_once_, blocks_.size());
  if (most == 0) return {};
  return spread((blocks_.size() + most - 1) / most, [&](ops::Lane& lane, std::size_t index) {
    const std::size_t first = index * most;
    return task(lane, {first, std::min(most, blocks_.size() - first)});
  });
}

Result<void> Adamw::square_sums(ops::Lane& lane, const Blocks& blocks,
                                std::span<const float> gradient_sum, double* squares) const {
  const ElementRange range = elements_of(blocks);
  return lane.backend().operations().square_sum(
      lane.stream(), lane.workspace(),
      {.x = {gradient_sum.data() + range.first, {static_cast<std::int64_t>(range.count)}},
       .sum = squares + blocks.first,
       .blocks = table_of(blocks)});
}

Result<std::vector<double>> download_squares(const ops::Spread& spread, const double* squares,
                                             std::size_t count) {
  std::vector<double> values(count);
  auto done = spread(1, [&](ops::Lane& lane, std::size_t) {
    return lane.backend().download(lane.stream(), squares,
                                   std::as_writable_bytes(std::span(values)));
  });
  if (!done) return done.error();
  return values;
}

StepOutcome Adamw::outcome_of(std::uint64_t step, const SumOf& of,
                              std::span<const double> squares) const {
  double total = 0, of_buffers = 0;
  for (std::size_t block = 0; block < blocks_.size(); ++block)
    (blocks_[block].kind == ParameterKind::buffer ? of_buffers : total) += squares[block];
  const bool counts = of.weight > 0 && std::isfinite(of.weight);
  StepOutcome outcome;
  outcome.scale = counts ? 1.0 / of.weight : 0;
  outcome.gradient_norm = std::sqrt(total) * outcome.scale;
  outcome.learning_rate = learning_rate(options_, step);
  outcome.skipped = !counts || !std::isfinite(total) || !std::isfinite(of_buffers);
  if (options_.clip > 0 && outcome.gradient_norm > options_.clip)
    outcome.scale *= options_.clip / outcome.gradient_norm;
  return outcome;
}

Result<void> Adamw::follow(ops::Lane& lane, const Blocks& blocks, double samples,
                           std::span<const float> sum, const Values& values) const {
  const ElementRange range = elements_of(blocks);
  const tensor::Shape extent{static_cast<std::int64_t>(range.count)};
  return lane.backend().operations().follow(
      lane.stream(), lane.workspace(),
      {.sum = {sum.data() + range.first, extent},
       .values = {values.weights.data() + range.first, extent},
       .scale = static_cast<float>(1.0 / samples),
       .blocks = table_of(blocks)});
}

Result<void> Adamw::update(ops::Lane& lane, const Blocks& blocks, const Reach& reach,
                           std::span<const float> gradient_sum, const Values& values) const {
  if (has(blocks, ParameterKind::buffer))
    if (auto done = follow(lane, blocks, reach.samples, gradient_sum, values); !done) return done;
  if (!has(blocks, ParameterKind::trained)) return {};
  const ElementRange range = elements_of(blocks);
  const tensor::Shape extent{static_cast<std::int64_t>(range.count)};
  ops::AdamwArgs args;
  args.scale = static_cast<float>(reach.scale);
  args.rate = static_cast<float>(learning_rate(options_, reach.step));
  args.beta1 = static_cast<float>(options_.beta1);
  args.beta2 = static_cast<float>(options_.beta2);
  args.epsilon = static_cast<float>(options_.epsilon);
  args.upscale1 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta1, reach.step)));
  args.upscale2 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta2, reach.step)));
  args.blocks = table_of(blocks);
  args.gradient = {gradient_sum.data() + range.first, extent};
  args.weights = {values.weights.data() + range.first, extent};
  args.first = {values.first.data() + range.first, extent};
  args.second = {values.second.data() + range.first, extent};
  return lane.backend().operations().adamw(lane.stream(), lane.workspace(), args);
}

Result<StepOutcome> Adamw::apply(std::uint64_t step, std::span<const float> gradient_sum,
                                 const SumOf& of, const Values& values, const ops::Spread& spread) {
  GPUNODE_CHECK(gradient_sum.size() == element_count_ && values.weights.size() == element_count_,
                "adamw: wrong number of parameters");
  GPUNODE_CHECK(step > 0 && of.samples > 0, "adamw: steps and samples count from 1");
  if (auto grown = pool_.grow(squares_, blocks_.size() * sizeof(double)); !grown)
    return grown.error();
  auto* squares = squares_.as<double>();
  if (auto done = place_blocks(spread); !done) return done.error();
  auto done = spread_blocks(spread, [&](ops::Lane& lane, const Blocks& blocks) {
    return square_sums(lane, blocks, gradient_sum, squares);
  });
  if (!done) return done.error();
  const auto found = download_squares(spread, squares, blocks_.size());
  if (!found) return found.error();
  const StepOutcome outcome = outcome_of(step, of, *found);
  if (outcome.skipped) return outcome;
  done = spread_blocks(spread, [&](ops::Lane& lane, const Blocks& blocks) {
    return update(lane, blocks, {step, outcome.scale, of.samples}, gradient_sum, values);
  });
  if (!done) return done.error();
  return outcome;
}

}  // namespace gpunode::model
