#include "tools/bench/local_trainer.hpp"

#include <algorithm>
#include <optional>

#include "kernels/tensor/workspace.hpp"
#include "runtime/dataset/shuffle.hpp"

namespace gpunode::bench {

LanePool::LanePool(int lanes) {
  for (int lane = 1; lane < lanes; ++lane) threads_.emplace_back([this, lane] { work(lane); });
}

LanePool::~LanePool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LanePool::run(std::size_t count, const std::function<void(int, std::size_t)>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  count_ = count;
  next_ = 0;
  ++round_;
  wake_.notify_all();
  while (next_ < count_) {
    const std::size_t index = next_++;
    lock.unlock();
    task(0, index);
    lock.lock();
  }
  done_.wait(lock, [this] { return running_ == 0; });
  task_ = nullptr;
}

void LanePool::work(int lane) {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || (round_ != seen && task_); });
    if (stop_) return;
    seen = round_;
    ++running_;
    while (next_ < count_) {
      const std::size_t index = next_++;
      lock.unlock();
      (*task_)(lane, index);
      lock.lock();
    }
    if (--running_ == 0) done_.notify_all();
  }
}

LocalTrainer::LocalTrainer(const model::Model& model, ops::Backend& backend, TrainerOptions options)
    : model_(model),
      backend_(backend),
      options_(options),
      pool_(options.lanes),
      optimizer_(model.parameters(), options.optimizer, backend),
      weights_(model.parameter_count()),
      gradients_(options.slices, std::vector<float>(model.parameter_count())) {
  model.initialise(options.seed, weights_);
}

Result<std::unique_ptr<LocalTrainer>> LocalTrainer::open(const model::Model& model,
                                                         ops::Backend& backend,
                                                         TrainerOptions options) {
  GPUNODE_CHECK(options.slices > 0 && options.batch % options.slices == 0,
                "the number of slices divides the batch");
  std::unique_ptr<LocalTrainer> trainer(new LocalTrainer(model, backend, options));
  auto program = model.program(backend, options.lanes);
  if (!program) return program.error();
  trainer->program_ = std::move(*program);
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  trainer->stream_ = std::move(*stream);
  if (auto done = trainer->program_->load(trainer->weights_); !done) return done.error();
  return trainer;
}

// The binary tree over slices: node (level, i) = left + right, block by block so that the block
// stays in cache.
void LocalTrainer::sum_slices() {
  constexpr std::size_t kBlock = 16384;
  const std::size_t count = weights_.size();
  pool_.run((count + kBlock - 1) / kBlock, [&](int, std::size_t index) {
    tensor::BufferPool none(backend_.memory(), 0);
    tensor::Workspace workspace(none);
    const std::size_t begin = index * kBlock;
    const tensor::Shape shape{static_cast<std::int64_t>(std::min(kBlock, count - begin))};
    for (std::size_t stride = 1; stride < options_.slices; stride *= 2) {
      for (std::size_t left = 0; left + stride < options_.slices; left += 2 * stride) {
        float* target = gradients_[left].data() + begin;
        const float* right = gradients_[left + stride].data() + begin;
        const auto done = backend_.operations().add(
            *stream_, workspace,
            {.a = {target, shape}, .b = {right, shape}, .out = {target, shape}});
        GPUNODE_CHECK(done.has_value(), "add cannot fail on the CPU");
      }
    }
  });
}

Result<StepReport> LocalTrainer::step(std::uint64_t number, std::span<const std::uint8_t> text) {
  const std::size_t starts = text.size() - model_.sample_bytes() + 1;
  const std::size_t per_slice = options_.batch / options_.slices;
  std::vector<float> losses(options_.slices);
  std::vector<std::optional<Error>> failures(options_.slices);
  pool_.run(options_.slices, [&](int lane, std::size_t slice) {
    std::vector<model::Sample> samples;
    for (std::size_t index = 0; index < per_slice; ++index) {
      const std::uint64_t position = (number - 1) * options_.batch + slice * per_slice + index;
      const std::size_t start =
          dataset::Shuffle(options_.seed, position / starts, starts).at(position % starts);
      samples.push_back({start, text.subspan(start, model_.sample_bytes())});
    }
    auto loss = program_->gradient(lane, samples, gradients_[slice]);
    if (loss)
      losses[slice] = *loss;
    else
      failures[slice] = loss.error();
  });
  for (const auto& failure : failures)
    if (failure) return *failure;
  sum_slices();
  const std::size_t tokens = options_.batch * model_.tokens_per_sample();
  StepReport report;
  for (float loss : losses) report.loss += loss;
  report.loss /= static_cast<double>(tokens);
  report.outcome =
      optimizer_.apply(number, gradients_[0], tokens, weights_,
                       [this](std::size_t count, const std::function<void(std::size_t)>& task) {
                         pool_.run(count, [&](int, std::size_t index) { task(index); });
                       });
  if (auto done = program_->load(weights_); !done) return done.error();
  return report;
}

Result<double> LocalTrainer::evaluate(std::span<const std::uint8_t> text) {
  const std::size_t stride = model_.tokens_per_sample();
  const std::size_t windows = (text.size() - 1) / stride;
  constexpr std::size_t kGroup = 16;
  std::vector<double> sums((windows + kGroup - 1) / kGroup);
  std::vector<std::optional<Error>> failures(sums.size());
  pool_.run(sums.size(), [&](int lane, std::size_t group) {
    std::vector<model::Sample> samples;
    for (std::size_t window = group * kGroup; window < std::min(windows, (group + 1) * kGroup);
         ++window)
      samples.push_back({window, text.subspan(window * stride, model_.sample_bytes())});
    auto loss = program_->evaluate(lane, samples);
    if (loss)
      sums[group] = *loss;
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
