#include "tools/bench/local_trainer.hpp"

#include <algorithm>
#include <optional>

#include "actors/compute/trainer.hpp"
#include "runtime/dataset/shuffle.hpp"

namespace gpunode::bench {

LocalTrainer::LocalTrainer(const model::Model& model, ops::Backend& backend, TrainerOptions options)
    : model_(model),
      options_(options),
      pool_(options.workers),
      optimizer_(model.parameters(), options.optimizer, backend) {
  const auto tree = collective::Tree::of_slices(static_cast<std::uint32_t>(options.slices));
  compute::PassNode& root = root_.emplace_back();
  root.task.node = tree.root();
  root.task.wanted = true;
  root.sum = std::make_shared<compute::Sum>(compute::Sum{
      std::make_shared<std::vector<float>>(model.parameter_count() + model::kTailElements)});
  for (std::uint32_t slice = 0; slice < options.slices; ++slice) root.task.slices.push_back(slice);
}

Result<std::unique_ptr<LocalTrainer>> LocalTrainer::open(const model::Model& model,
                                                         ops::Backend& backend,
                                                         TrainerOptions options) {
  GPUNODE_CHECK(options.slices > 0 && options.batch % options.slices == 0,
                "the number of slices divides the batch");
  std::unique_ptr<LocalTrainer> trainer(new LocalTrainer(model, backend, options));
  auto program = model.program(backend, options.workers);
  if (!program) return program.error();
  trainer->program_ = std::move(*program);
  auto device = compute::Device::open(backend, trainer->pool_);
  if (!device) return device.error();
  trainer->device_ = std::move(*device);
  auto state = compute::DeviceState::allocate(*trainer->device_, model.parameter_count());
  if (!state) return state.error();
  trainer->state_ = *std::move(state);
  GPUNODE_CHECK(trainer->device_->shares_memory(), "the benchmark's trainer is the CPU's");
  std::ranges::fill(trainer->state_.all(), 0.0f);
  model.initialise(options.seed, trainer->state_.weights());
  trainer->pass_ = std::make_unique<compute::LayeredPass>(compute::LayeredPass::Options{
      .program = trainer->program_.get(),
      .workers = &trainer->pool_,
      .device = trainer->device_.get(),
      .stages = model.stages(),
      .forward_stages = model.forward_stages().size(),
      .parameter_count = model.parameter_count(),
      .tree = collective::Tree::of_slices(static_cast<std::uint32_t>(options.slices))});
  if (auto done = trainer->program_->load(trainer->weights()); !done) return done.error();
  return trainer;
}

Result<StepReport> LocalTrainer::step(std::uint64_t number, std::span<const std::uint8_t> text) {
  const SampleField field = model_.sample_fields().front();
  const std::size_t stride = field.bytes() / field.count;  // of an element
  const std::size_t starts = (text.size() - model_.sample_bytes()) / stride + 1;
  const std::size_t per_slice = options_.batch / options_.slices;
  compute::PassNode& root = root_.front();
  root.samples.assign(options_.slices, {});
  for (std::size_t index = 0; index < options_.batch; ++index) {
    const std::uint64_t position = (number - 1) * options_.batch + index;
    const std::size_t start =
        stride * dataset::Shuffle(options_.seed, position / starts, starts).at(position % starts);
    root.samples[index / per_slice].push_back({start, text.subspan(start, model_.sample_bytes())});
  }
  if (auto done = pass_->run(root_, [](std::size_t, std::size_t, std::size_t) {}); !done)
    return done.error();
  const double weight = root.sum->host->back();
  StepReport report;
  report.loss = double{(*root.sum->host)[state_.count()]} / weight;
  const std::span<const float> sum(root.sum->place(), state_.count());
  auto outcome = optimizer_.apply(number, sum, {weight, static_cast<double>(options_.batch)},
                                  state_.values(), device_->spread());
  if (!outcome) return outcome.error();
  report.outcome = *outcome;
  if (auto done = program_->load(weights()); !done) return done.error();
  return report;
}

Result<double> LocalTrainer::evaluate(std::span<const std::uint8_t> text) {
  const std::size_t stride = model_.tokens_per_sample();
  const std::size_t windows = (text.size() - 1) / stride;
  constexpr std::size_t kGroup = 16;
  std::vector<double> sums((windows + kGroup - 1) / kGroup);
  std::vector<std::optional<Error>> failures(sums.size());
  pool_.run(sums.size(), [&](int worker, std::size_t group) {
    std::vector<model::Sample> samples;
    for (std::size_t window = group * kGroup; window < std::min(windows, (group + 1) * kGroup);
         ++window)
      samples.push_back({window, text.subspan(window * stride, model_.sample_bytes())});
    auto loss = program_->evaluate(worker, samples);
    if (loss)
      sums[group] = loss->loss;
    else
      failures[group] = loss.error();
  });
  for (const auto& failure : failures)
    if (failure) return *failure;
  double total = 0;
  for (double sum : sums) total += sum;
  return total / static_cast<double>(windows * stride);
}

}  // namespace gpunode::bench
