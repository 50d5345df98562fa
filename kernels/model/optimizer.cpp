#include "kernels/model/optimizer.hpp"

#include <cmath>
#include <numbers>

#include "kernels/ops/backend.hpp"
#include "kernels/tensor/exact_math.hpp"

namespace gpunode::model {
namespace {

// Elements of a block: enough to outweigh handing it to a thread, few enough to balance threads.
constexpr std::size_t kBlockElements = 32768;

// One operation on the CPU, without a workspace.
template <class Operation>
void run_on_cpu(ops::Backend& backend, const Operation& operation) {
  auto stream = backend.open_stream();
  GPUNODE_CHECK(stream.has_value(), "the CPU always has a stream");
  tensor::BufferPool none(backend.memory(), 0);
  tensor::Workspace workspace(none);
  const Result<void> done = operation(**stream, workspace);
  GPUNODE_CHECK(done.has_value(), "the optimizer's operations cannot fail on the CPU");
}

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

double Adamw::square_sum(std::size_t block, std::span<const float> gradient_sum) const {
  const ElementRange range = this->block(block);
  double square = 0;
  run_on_cpu(backend_, [&](tensor::Stream& stream, tensor::Workspace& workspace) {
    return backend_.operations().square_sum(
        stream, workspace,
        {.x = {gradient_sum.data() + range.first, {static_cast<std::int64_t>(range.count)}},
         .sum = &square});
  });
  return square;
}

StepOutcome Adamw::outcome_of(std::uint64_t step, std::uint64_t token_count,
                              std::span<const double> squares) const {
  double total = 0;
  for (double square : squares) total += square;
  StepOutcome outcome;
  outcome.scale = 1.0 / static_cast<double>(token_count);
  outcome.gradient_norm = std::sqrt(total) * outcome.scale;
  outcome.learning_rate = learning_rate(options_, step);
  outcome.skipped = !std::isfinite(total);
  if (options_.clip > 0 && outcome.gradient_norm > options_.clip)
    outcome.scale *= options_.clip / outcome.gradient_norm;
  return outcome;
}

void Adamw::update(std::size_t block, std::uint64_t step, double scale,
                   std::span<const float> gradient_sum, const Values& values) const {
  const ElementRange range = this->block(block);
  const tensor::Shape extent{static_cast<std::int64_t>(range.count)};
  ops::AdamwArgs args;
  args.scale = static_cast<float>(scale);
  args.rate = static_cast<float>(learning_rate(options_, step));
  args.beta1 = static_cast<float>(options_.beta1);
  args.beta2 = static_cast<float>(options_.beta2);
  args.epsilon = static_cast<float>(options_.epsilon);
  args.upscale1 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta1, step)));
  args.upscale2 = static_cast<float>(1.0 / (1.0 - tensor::exact_power(options_.beta2, step)));
  args.decay = blocks_[block].decay ? static_cast<float>(options_.weight_decay) : 0.0f;
  args.gradient = {gradient_sum.data() + range.first, extent};
  args.weights = {values.weights.data() + range.first, extent};
  args.first = {values.first.data() + range.first, extent};
  args.second = {values.second.data() + range.first, extent};
  run_on_cpu(backend_, [&](tensor::Stream& stream, tensor::Workspace& workspace) {
    return backend_.operations().adamw(stream, workspace, args);
  });
}

StepOutcome Adamw::apply(std::uint64_t step, std::span<const float> gradient_sum,
                         std::uint64_t token_count, std::span<float> parameters,
                         const Parallel& parallel) {
  GPUNODE_CHECK(gradient_sum.size() == first_.size() && parameters.size() == first_.size(),
                "adamw: wrong number of parameters");
  GPUNODE_CHECK(step > 0 && token_count > 0, "adamw: steps and tokens count from 1");
  std::vector<double> squares(blocks_.size());
  parallel(blocks_.size(),
           [&](std::size_t index) { squares[index] = square_sum(index, gradient_sum); });
  const StepOutcome outcome = outcome_of(step, token_count, squares);
  if (outcome.skipped) return outcome;
  parallel(blocks_.size(), [&](std::size_t index) {
    update(index, step, outcome.scale, gradient_sum, {parameters, first_, second_});
  });
  return outcome;
}

}  // namespace gpunode::model
