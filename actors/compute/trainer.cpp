#include "actors/compute/trainer.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "actors/compute/host_workspace.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/outer_step.hpp"
#include "runtime/base/fault_point.hpp"

namespace gpunode::compute {

using collective::DataFingerprint;
using collective::TreeNode;

model::AdamwOptions adamw_options(const job::TrainSpec& spec) {
  return {.peak_rate = spec.learning_rate,
          .min_rate = spec.min_learning_rate,
          .warmup_steps = spec.warmup_steps,
          .total_steps = spec.steps,
          .beta1 = spec.beta1,
          .beta2 = spec.beta2,
          .epsilon = spec.epsilon,
          .weight_decay = spec.weight_decay,
          .clip = spec.clip};
}

collective::AddFn add_of(ops::Backend& backend) {
  auto host = open_host_workspace(backend);
  ops::Operation<ops::AddArgs>* add = backend.operations().add;
  return [host, add](float* out, std::span<const float* const> inputs, std::size_t count) {
    auto view = [count](const float* data) {
      return tensor::ConstTensor{data, {static_cast<std::int64_t>(count)}};
    };
    tensor::Tensor target{out, {static_cast<std::int64_t>(count)}};
    if (inputs.size() == 1) {
      if (out != inputs[0]) std::memcpy(out, inputs[0], count * sizeof(float));
      return;
    }
    const float* left = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      auto done = add(*host->stream, host->workspace,
                      {.a = view(left), .b = view(inputs[i]), .c = {}, .out = target});
      GPUNODE_CHECK(done, done.error().message());
      left = out;
    }
  };
}

std::vector<model::Sample> samples_of(const ingest::Slice& slice) {
  std::vector<model::Sample> samples;
  for (std::size_t row = 0; row < slice.samples.size(); ++row) {
    const ByteView sample = slice.sample(row);
    samples.push_back({slice.samples[row].sample,
                       {reinterpret_cast<const std::uint8_t*>(sample.data()), sample.size()}});
  }
  return samples;
}

Result<model::Fingerprint> fingerprint_of(const job::TrainSpec& spec, const model::Model& model,
                                          ops::Backend& backend, const dataset::Dataset& data) {
  const std::size_t size = data.sample_bytes();
  const std::uint64_t count = std::min<std::uint64_t>(samples_per_slice(spec), data.sample_count());
  std::vector<std::uint8_t> bytes(count * size);
  std::vector<model::Sample> samples;
  for (std::uint64_t at = 0; at < count; ++at) {
    const std::uint64_t index = at * (data.sample_count() / count);
    const auto place = std::span(bytes).subspan(at * size, size);
    data.read_sample(index, std::as_writable_bytes(place));
    samples.push_back({index, place});
  }
  return model::compute_fingerprint(model, backend, samples);
}

SliceMemory slice_memory(const model::Model& model, const job::TrainSpec& spec, int workers,
                         std::uint64_t budget_bytes) {
  const std::vector<model::ElementRange> stages = model.stages();
  const std::uint64_t activations = stages.empty() ? 0 : model.slot_bytes(samples_per_slice(spec));
  const std::uint64_t gradients = stages.empty() ? model.parameter_count() * sizeof(float)
                                                 : LayeredPass::slice_gradient_bytes(stages);
  const std::uint64_t fitting = budget_bytes / std::max<std::uint64_t>(1, activations + gradients);
  SliceMemory memory;
  memory.slices = std::min<std::uint64_t>(
      spec.slices, std::max<std::uint64_t>(fitting, static_cast<std::uint64_t>(workers)));
  memory.activation_bytes = memory.slices * activations;
  memory.gradient_bytes = memory.slices * gradients;
  return memory;
}

Trainer::Trainer(Options options)
    : model_(std::move(options.model)),
      backend_(options.backend),
      spec_(std::move(options.spec)),
      tree_(job::tree_of(spec_.train)),
      reader_(std::move(options.reader)),
      clock_(options.clock),
      workers_(std::max(1, options.workers)),
      store_(tree_, [this](std::span<const SharedSum> children) { return join(children); }),
      inner_store_(tree_, [this](std::span<const SharedSum> children) { return join(children); }),
      slice_memory_(compute::slice_memory(*model_, spec_.train, workers_.workers(),
                                          options.slice_budget_bytes)),
      pool_(collective::FloatPool::create(element_count())),
      stage_budget_bytes_(options.stage_budget_bytes),
      evaluated_tokens_(options.evaluated_tokens) {}

Result<std::unique_ptr<Trainer>> Trainer::create(Options options) {
  GPUNODE_CHECK(options.model && options.backend && options.reader && options.clock,
                "a trainer needs model, backend, data and clock");
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  if (auto begun = trainer->make_parts(); !begun) return begun.error();
  return trainer;
}

Result<void> Trainer::make_parts() {
  auto program = model::make_program(*model_, *backend_, workers_.workers());
  if (!program) return program.error();
  program_ = std::move(*program);
  auto device = Device::open(*backend_, workers_);
  if (!device) return device.error();
  device_ = std::move(*device);
  pass_ = std::make_unique<LayeredPass>(
      LayeredPass::Options{.program = program_.get(),
                           .workers = &workers_,
                           .device = device_.get(),
                           .stages = model_->stages(),
                           .forward_stages = model_->forward_stages().size(),
                           .parameter_count = model_->parameter_count(),
                           .tree = tree_});
  auto state = DeviceState::allocate(*device_, model_->parameter_count());
  if (!state) return state.error().within("state of " + model_->name());
  state_ = *std::move(state);
  optimizer_ =
      std::make_unique<model::Adamw>(model_->parameters(), adamw_options(spec_.train), *backend_);
  staged_ = std::make_unique<StagedState>(*optimizer_, *device_);
  const std::size_t capacity = spec_.train.slices * 2;
  prefetcher_ = std::make_unique<ingest::Prefetcher>(*reader_, *clock_, capacity);
  if (spec_.exchange.mode == job::ExchangeMode::local) {
    local_ = std::make_unique<LocalRound>(local_options());
    if (!device_->shares_memory()) {
      auto inner = DeviceState::allocate(*device_, state_.count());
      if (!inner) return inner.error();
      inner_state_ = *std::move(inner);
    }
  }
  return install(0, {});
}

// The tail is summed as the parameters are: left to right.
Result<SharedSum> Trainer::join(std::span<const SharedSum> children) {
  const std::size_t count = model_->parameter_count();
  auto made = device_->make_sum(pool_->take(), count);
  if (!made) return made;
  std::vector<const float*> inputs;
  for (const SharedSum& child : children) inputs.push_back(child->place());
  if (auto done = device_->add(0, inputs, {(*made)->place(), count}); !done) return done.error();
  for (std::size_t at = count; at < element_count(); ++at) {
    float total = (*children.front()->host)[at];
    for (const SharedSum& child : children.subspan(1)) total += (*child->host)[at];
    (*(*made)->host)[at] = total;
  }
  return made;
}

// A total that is this member's own sum lies there already.
Result<std::span<const float>> Trainer::on_device(const std::vector<float>& total) {
  const std::span<const float> host = std::span(total).first(model_->parameter_count());
  if (device_->shares_memory()) return host;
  if (const SharedSum own = store_.sum_in(total))
    return std::span<const float>(own->place(), host.size());
  if (auto grown = device_->pool().grow(total_, host.size_bytes()); !grown) return grown.error();
  if (auto done = device_->to_device(0, host, total_.as<float>()); !done) return done.error();
  return std::span(total_.as<const float>(), host.size());
}

void Trainer::want(std::uint64_t step, std::vector<TreeNode> cover) {
  GPUNODE_CHECK(step == step_ + 1, "only the step after the applied one can be computed");
  if (store_.step() != step) {
    store_.begin(step);
    times_ = {};
    own_slices_.clear();
  }
  if (local_) return local_->want(step_, std::move(cover));
  store_.want(std::move(cover));
  for (std::uint32_t slice : store_.missing()) own_slices_.push_back(slice);
  plan_ahead();
}

void Trainer::discard_kept() {
  store_.discard();
  staged_->drop();
  if (local_) local_->discard();
  times_ = ahead_times_ = {};
}

// Prepares what is missing now, then the same slices of the next step: most often right.
void Trainer::plan_ahead() {
  std::vector<ingest::SliceKey> keys;
  const bool ahead = ahead_ && ahead_->data_step == step_;
  for (std::uint32_t slice : store_.missing())
    if (!ahead || std::ranges::find(ahead_->slices, slice) == ahead_->slices.end())
      keys.push_back({step_, slice});
  if (step_ + 1 < spec_.train.steps)
    for (std::uint32_t slice : own_slices_) keys.push_back({step_ + 1, slice});
  prefetcher_->plan(keys);
}

// What the step has taken, a block of `slices` that began then included.
collective::ComputeTimes Trainer::spent(Time since, Duration starved, std::size_t slices) const {
  collective::ComputeTimes times = times_;
  times.compute_us += collective::microseconds(clock_->now() - since);
  times.data_us += collective::microseconds(starved);
  times.slices = static_cast<std::uint16_t>(times.slices + slices);
  times.workers = static_cast<std::uint16_t>(workers_.workers());
  return times;
}

Result<void> Trainer::compute_some(const TellRange& tell) {
  if (local_) return compute_local(tell);
  auto complete = store_.take_complete();
  if (!complete) return complete.error();
  for (const NodeSum& whole : *complete) {
    if (auto here = device_->bring_to_host(0, *whole.sum); !here) return here;
    tell({{0, step_ + 1, whole.node, whole.sum->host, whole.data_fingerprint, 0,
           whole.sum->host->size(), times_}});
  }
  return compute_block(store_, step_, tell, [](std::uint32_t, const DataFingerprint&) {});
}

// The next block of a store's missing slices, of the samples of step data_step + 1.
Result<void> Trainer::compute_block(PartialStore& store, std::uint64_t data_step,
                                    const TellRange& tell, const OnSlice& on_slice) {
  const std::vector<SumTask> tasks =
      store.next(slice_memory_.slices, static_cast<std::size_t>(workers_.workers()));
  if (tasks.empty()) return {};
  const Time begin = clock_->now();
  const Duration waiting = prefetcher_->starvation().waiting;
  fault_point("slice", step_ + 1);
  std::vector<std::uint32_t> slices;
  for (const SumTask& task : tasks)
    slices.insert(slices.end(), task.slices.begin(), task.slices.end());
  if (&store == &store_ && times_.slices == 0) first_block_ = slices;
  auto taken = take_ahead(data_step, slices);
  if (!taken) return taken.error();
  std::vector<ingest::Slice>& data = *taken;  // what the samples refer to
  const std::size_t ahead = data.size();
  std::size_t next = 0;
  std::vector<PassNode> nodes;
  std::vector<DataFingerprint> fingerprints;
  for (const SumTask& task : tasks) {
    auto sum = device_->make_sum(pool_->take(), model_->parameter_count());
    if (!sum) return sum.error();
    PassNode& node = nodes.emplace_back(PassNode{task, {}, *std::move(sum)});
    DataFingerprint& data_fingerprint = fingerprints.emplace_back(task.kept_fingerprint);
    for (std::uint32_t slice : task.slices) {
      if (next == data.size()) data.push_back(prefetcher_->take({data_step, slice}));
      const ingest::Slice& read = data[next++];
      const DataFingerprint slice_fingerprint{read.data_fingerprint, read.samples.size()};
      on_slice(slice, slice_fingerprint);
      data_fingerprint += slice_fingerprint;
      node.samples.push_back(samples_of(read));
    }
  }
  const Duration starved = prefetcher_->starvation().waiting - waiting;
  std::atomic<std::size_t> untold = tasks.size() * element_count();
  const auto on_final = [&](std::size_t node, std::size_t first, std::size_t count) {
    const bool last = untold.fetch_sub(count) == count;
    if (tasks[node].wanted)
      tell({{0, step_ + 1, tasks[node].node, nodes[node].sum->host, fingerprints[node], first,
             count, spent(begin, starved, data.size())},
            last});
  };
  auto done = pass_->run(nodes, on_final, ahead);
  if (!done) return done;
  for (std::size_t node = 0; node < tasks.size(); ++node)
    store.keep(tasks[node], std::move(nodes[node].sum), fingerprints[node]);
  times_ = spent(begin, starved, data.size());
  return {};
}

LocalRound::Options Trainer::local_options() {
  model::AdamwOptions inner = adamw_options(spec_.train);
  inner.total_steps = spec_.train.steps * spec_.exchange.inner_steps;
  inner_optimizer_ = std::make_unique<model::Adamw>(model_->parameters(), inner, *backend_);
  return {
      .inner_steps = spec_.exchange.inner_steps,
      .rounds = spec_.train.steps,
      .ahead = spec_.exchange.rounds_ahead > 0,
      .tree = tree_,
      .sum_slices =
          [this](std::uint64_t data_step, const std::vector<std::uint32_t>& slices,
                 std::span<const float> weights) { return sum_slices(data_step, slices, weights); },
      .update =
          [this](std::uint64_t step, std::span<const float> gradient, std::uint64_t samples,
                 std::span<float> weights, Moments& moments) {
            return inner_update(step, gradient, samples, weights, moments);
          },
      .predict =
          [this](std::span<const float> change, std::span<float> weights) {
            model::OuterStep outer = outer_step();
            outer.scale = 1;
            std::vector<float> velocity = velocity_;
            model::apply_outer_step(outer, change, weights, velocity);
          }};
}

model::OuterStep Trainer::outer_step() const {
  return {.scale = 1.0f / static_cast<float>(spec_.train.slices),
          .rate = static_cast<float>(spec_.exchange.outer_rate),
          .momentum = static_cast<float>(spec_.exchange.outer_momentum),
          .trained_count = model::trained_count(model_->parameters())};
}

// Weights and moments lie with the round, on the host, as several runs of one may begin from the
// same ones.
Result<void> Trainer::inner_update(std::uint64_t step, std::span<const float> gradient,
                                   std::uint64_t samples, std::span<float> weights,
                                   Moments& moments) {
  const std::size_t count = weights.size();
  moments.first.resize(count);
  moments.second.resize(count);
  const std::span<float> kept[] = {weights, moments.first, moments.second};
  model::Adamw::Values values{kept[0], kept[1], kept[2]};
  std::span<const float> sum = gradient.first(count);
  if (!device_->shares_memory()) {
    values = inner_state_.values();
    if (auto grown = device_->pool().grow(total_, sum.size_bytes()); !grown) return grown;
    Result<void> done = device_->to_device(0, sum, total_.as<float>());
    sum = {total_.as<const float>(), count};
    for (std::size_t part = 0; part < 3 && done; ++part)
      done = device_->to_device(0, kept[part], inner_state_.all().data() + part * count);
    if (!done) return done;
  }
  const auto outcome =
      inner_optimizer_->apply(step, sum, over(gradient, samples), values, device_->spread());
  Result<void> done;
  if (!outcome) done = outcome.error();
  for (std::size_t part = 0; part < 3 && done && !device_->shares_memory(); ++part)
    done = device_->to_host(0, inner_state_.all().data() + part * count, kept[part]);
  return done;
}

// One inner step; sums that the round's last one completes are told whole. What is done ahead is
// time of the next round.
Result<void> Trainer::compute_local(const TellRange& tell) {
  const bool ahead = local_->works_ahead();
  const collective::ComputeTimes before = times_;
  auto complete = local_->advance(host_weights_);
  if (!complete) return complete.error();
  if (ahead) {
    ahead_times_.compute_us += times_.compute_us - before.compute_us;
    ahead_times_.data_us += times_.data_us - before.data_us;
    ahead_times_.workers = times_.workers;
    times_ = before;
  }
  times_.slices = before.slices;  // one counts once a round
  for (const NodeSum& whole : *complete)
    times_.slices = static_cast<std::uint16_t>(times_.slices + tree_.width(whole.node.level));
  for (NodeSum& whole : *complete)
    tell({{0, step_ + 1, whole.node, whole.sum->host, whole.data_fingerprint, 0,
           whole.sum->host->size(), times_}});
  return {};
}

Result<SliceSums> Trainer::sum_slices(std::uint64_t data_step,
                                      const std::vector<std::uint32_t>& slices,
                                      std::span<const float> weights) {
  std::span<const float> there = weights;
  if (!device_->shares_memory()) {
    there = inner_state_.weights();
    if (auto done = device_->to_device(0, weights, inner_state_.weights().data()); !done)
      return done.error();
  }
  if (auto loaded = program_->load(there); !loaded) return loaded.error();
  std::vector<ingest::SliceKey> keys;
  for (std::uint64_t ahead : {0, 1})
    for (std::uint32_t slice : slices) keys.push_back({data_step + ahead, slice});
  prefetcher_->plan(keys);
  inner_store_.begin(data_step + 1);
  inner_store_.discard();
  inner_store_.want(tree_.cover(slices));
  SliceSums sums;
  std::mutex mutex;
  std::map<TreeNode, collective::SharedFloats> nodes;
  const auto collect = [&](SumRange range) {  // from any worker's thread
    std::lock_guard lock(mutex);
    nodes.emplace(range.node, std::move(range.sum));
  };
  const auto on_slice = [&](std::uint32_t slice, const DataFingerprint& data_fingerprint) {
    sums.data_fingerprint[slice] = data_fingerprint;
  };
  while (!inner_store_.missing().empty())
    if (auto done = compute_block(inner_store_, data_step, collect, on_slice); !done)
      return done.error();
  auto complete = inner_store_.take_complete();
  if (!complete) return complete.error();
  for (const NodeSum& whole : *complete) {
    if (auto here = device_->bring_to_host(0, *whole.sum); !here) return here.error();
    nodes.emplace(whole.node, whole.sum->host);
  }
  sums.sum.resize(element_count());
  for (const auto& [node, sum] : nodes)
    for (std::size_t i = 0; i < sums.sum.size(); ++i) sums.sum[i] += (*sum)[i];
  return sums;
}

Result<model::StepOutcome> Trainer::update(std::uint64_t step, const std::vector<float>& total) {
  if (local_) return update_locally(std::span(total).first(model_->parameter_count()));
  const auto sum = on_device(total);
  if (!sum) return sum.error();
  return optimizer_->apply(step, *sum, over(total, spec_.train.batch), state_.values(),
                           device_->spread());
}

// In mode local the host has weights and velocity, and the device's state is a copy of them.
Result<model::StepOutcome> Trainer::update_locally(std::span<const float> change) {
  const bool applied = model::apply_outer_step(outer_step(), change, host_weights_, velocity_);
  local_->on_applied(host_weights_);
  Result<void> done = device_->to_device(0, host_weights_, state_.values().weights.data());
  if (done) done = device_->to_device(0, velocity_, state_.values().first.data());
  if (!done) return done.error();
  return model::StepOutcome{.skipped = !applied,
                            .gradient_norm = 0,
                            .learning_rate = spec_.exchange.outer_rate,
                            .scale = 1};
}

Result<StepReport> Trainer::apply(std::uint64_t step, const std::vector<float>& total) {
  GPUNODE_CHECK(step == step_ + 1, "steps are applied in order");
  GPUNODE_CHECK(total.size() == element_count(), "a total has one value a parameter and a tail");
  const double weight = total.back();
  const Time begin = clock_->now();
  std::optional<model::StepOutcome> staged;
  if (staged_->is_of(step, total)) {
    auto taken = staged_->take(state_);
    if (!taken) return taken.error();
    staged = *taken;
  }
  if (!staged)
    if (auto dropped = drop_ahead(); !dropped) return dropped.error();
  const Result<model::StepOutcome> outcome = staged ? *staged : update(step, total);
  if (!outcome) return outcome.error();
  staged_->drop();
  clipped_ = outcome->scale < 1.0 / weight;
  step_ = step;
  store_.begin(step + 1);
  times_ = std::exchange(ahead_times_, {});
  const Time optimized = clock_->now();
  if (auto loaded = staged ? load_rest() : program_->load(state_.weights()); !loaded)
    return loaded.error();
  const Time loaded = clock_->now();
  const Result<Digest> digest = staged ? staged_->digest() : state_digest();
  if (!digest) return digest.error();
  StepReport report{.loss = weight > 0 ? double{total[model_->parameter_count()]} / weight : 0,
                    .gradient_norm = outcome->gradient_norm,
                    .learning_rate = outcome->learning_rate,
                    .skipped = outcome->skipped,
                    .state = *digest};
  report.optimizing = optimized - begin;
  report.loading = loaded - optimized;
  report.digesting = clock_->now() - loaded;
  return report;
}

Result<SharedBytes> Trainer::state_bytes() {
  Bytes bytes(state_.bytes().size());
  if (auto done = device_->read(0, state_.all().data(), bytes); !done) return done.error();
  return SharedBytes::from(std::move(bytes));
}

Result<void> Trainer::install(std::uint64_t step, ByteView state) {
  if (local_) local_->forget();
  staged_->drop();
  pass_->drop_ahead();
  ahead_.reset();
  ahead_times_ = {};
  const std::size_t count = model_->parameter_count();
  Result<void> done;
  if (step == 0 && state.empty()) {
    std::vector<float> weights(count);
    model_->initialise(spec_.train.seed, weights);
    done = device_->to_device(0, weights, state_.weights().data());
    if (done) done = device_->clear(0, state_.all().subspan(count));
  } else if (state.size() == state_.bytes().size()) {
    done = device_->write(0, state, state_.all().data());
  } else {
    done = Error{ErrorCode::corrupted, "a state of " + std::to_string(state.size()) +
                                           " bytes does not belong to this model"};
  }
  if (done && local_) done = read_back();
  if (!done) return done;
  step_ = step;
  store_.begin(step + 1);
  store_.discard();
  return program_->load(state_.weights());
}

// Of mode local: the host's copy of what the state is.
Result<void> Trainer::read_back() {
  host_weights_.resize(state_.count());
  velocity_.resize(state_.count());
  auto done = device_->to_host(0, state_.values().weights.data(), host_weights_);
  return done ? device_->to_host(0, state_.values().first.data(), velocity_) : done;
}

Result<Digest> Trainer::state_digest() {
  return digest_of_state(*device_, state_);
}

Result<HeldOutLoss> Trainer::evaluate() {
  const dataset::Dataset& data = reader_->data();
  const std::uint64_t tokens = model_->tokens_per_sample();
  const std::uint64_t held_out = data.held_out_count();
  const std::uint64_t count =
      std::min(held_out, std::max<std::uint64_t>(1, evaluated_tokens_ / tokens));
  if (count == 0)
    return Error{ErrorCode::not_found,
                 "the held-out part has no whole sample of the model: raise "
                 "data.validation_fraction"};
  if (local_)  // the program may hold those of an inner step
    if (auto loaded = program_->load(state_.weights()); !loaded) return loaded.error();
  if (auto dropped = drop_ahead(); !dropped) return dropped.error();
  constexpr std::uint64_t kGroup = 16;
  const std::uint64_t groups = (count + kGroup - 1) / kGroup;
  std::vector<model::Evaluation> sums(groups);
  std::vector<std::optional<Error>> errors(groups);
  workers_.run(groups, [&](int worker, std::size_t group) {
    const std::uint64_t begin = group * kGroup, end = std::min(count, begin + kGroup);
    const std::size_t size = data.sample_bytes();
    std::vector<std::uint8_t> bytes((end - begin) * size);
    std::vector<model::Sample> samples;
    for (std::uint64_t i = begin; i < end; ++i) {
      const auto place = std::span(bytes).subspan((i - begin) * size, size);
      data.read_held_out(i * held_out / count, std::as_writable_bytes(place));
      samples.push_back({i, place});
    }
    auto sum = program_->evaluate(worker, samples);
    if (sum)
      sums[group] = *sum;
    else
      errors[group] = sum.error();
  });
  model::Evaluation total{.loss = 0, .weight = 0, .correct = 0};
  for (std::size_t group = 0; group < groups; ++group) {
    if (errors[group]) return *errors[group];
    total.loss += sums[group].loss;
    total.weight += sums[group].weight;
    total.correct = total.correct && sums[group].correct
                        ? std::optional(*total.correct + *sums[group].correct)
                        : std::nullopt;
  }
  if (!(total.weight > 0))
    return Error{ErrorCode::not_found, "nothing is predicted in the held-out part"};
  HeldOutLoss result{total.loss / total.weight, {}, count, held_out};
  if (total.correct) result.accuracy = static_cast<double>(*total.correct) / total.weight;
  return result;
}

}  // namespace gpunode::compute
