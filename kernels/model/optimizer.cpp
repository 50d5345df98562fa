#include "kernels/model/optimizer.hpp"

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

Parallel serial() {
  return [](std::size_t count, const std::function<void(std::size_t)>& task) {
    for (std::size_t index = 0; index < count; ++index) task(index);
  };
}

Adamw::Adamw(const std::vector<ParameterSpec>& parameters, AdamwOptions options,
             ops::Backend& backend)
    : options_(options), backend_(backend) {
  GPUNODE_CHECK(backend.capabilities().host_accessible && backend.operations().adamw &&
                    backend.operations().square_sum,
                "the optimizer's backend is the CPU's");
  std::size_t count = 0;
  for (const ParameterSpec& spec : parameters) {
    const std::size_t end = count + spec.element_count();
    for (std::size_t begin = count; begin < end; begin += kBlockElements)
      blocks_.push_back({begin, std::min(begin + kBlockElements, end), spec.decay});
    count = end;
  }
  first_.resize(count);
  second_.resize(count);
}

StepOutcome Adamw::apply(std::uint64_t step, std::span<const float> gradient_sum,
                         std::uint64_t token_count, std::span<float> parameters,
                         const Parallel& parallel) {
  GPUNODE_CHECK(gradient_sum.size() == first_.size() && parameters.size() == first_.size(),
                "adamw: wrong number of parameters");
  GPUNODE_CHECK(step > 0 && token_count > 0, "adamw: steps and tokens count from 1");
  const ops::Operations& ops = backend_.operations();
  auto stream = backend_.open_stream();
  GPUNODE_CHECK(stream.has_value(), "the CPU always has a stream");

  std::vector<double> squares(blocks_.size());
  const auto each_block = [&](const std::function<void(std::size_t, tensor::Workspace&)>& task) {
    parallel(blocks_.size(), [&](std::size_t index) {
      tensor::BufferPool none(backend_.memory(), 0);
      tensor::Workspace workspace(none);
      task(index, workspace);
    });
  };
  const auto extent = [&](std::size_t index) {
    return tensor::Shape{static_cast<std::int64_t>(blocks_[index].end - blocks_[index].begin)};
  };
  each_block([&](std::size_t index, tensor::Workspace& workspace) {
    const auto done = ops.square_sum(
        **stream, workspace,
        {.x = {gradient_sum.data() + blocks_[index].begin, extent(index)}, .sum = &squares[index]});
    GPUNODE_CHECK(done.has_value(), "square_sum cannot fail on the CPU");
  });
  double total = 0;
  for (double square : squares) total += square;

  StepOutcome outcome;
  const double inverse = 1.0 / static_cast<double>(token_count);
  outcome.gradient_norm = std::sqrt(total) * inverse;
  outcome.learning_rate = learning_rate(options_, step);
  if (!std::isfinite(total)) {
    outcome.skipped = true;
    return outcome;
  }
  double scale = inverse;
  if (options_.clip > 0 && outcome.gradient_norm > options_.clip)
    scale *= options_.clip / outcome.gradient_norm;

  ops::AdamwArgs common;
  common.scale = static_cast<float>(scale);
  common.rate = static_cast<float>(outcome.learning_rate);
  common.beta1 = static_cast<float>(options_.beta1);
  common.beta2 = static_cast<float>(options_.beta2);
  common.epsilon = static_cast<float>(options_.epsilon);
  common.upscale1 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta1, step)));
  common.upscale2 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta2, step)));
  each_block([&](std::size_t index, tensor::Workspace& workspace) {
    const Block& block = blocks_[index];
    ops::AdamwArgs args = common;
    args.decay = block.decay ? static_cast<float>(options_.weight_decay) : 0.0f;
    args.gradient = {gradient_sum.data() + block.begin, extent(index)};
    args.weights = {parameters.data() + block.begin, extent(index)};
    args.first = {first_.data() + block.begin, extent(index)};
    args.second = {second_.data() + block.begin, extent(index)};
    const auto done = ops.adamw(**stream, workspace, args);
    GPUNODE_CHECK(done.has_value(), "adamw cannot fail on the CPU");
  });
  return outcome;
}

}  // namespace gpunode::model
