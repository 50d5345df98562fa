#include "actors/compute/trainer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "actors/compute/host_workspace.hpp"

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

namespace {

// Of mode local: its steps are those within the rounds.
std::optional<model::AdamwOptions> inner_options(const job::JobSpec& spec) {
  if (spec.exchange.mode != job::ExchangeMode::local) return {};
  model::AdamwOptions inner = adamw_options(spec.train);
  inner.total_steps = spec.train.steps * spec.exchange.inner_steps;
  return inner;
}

}  // namespace

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

Trainer::Trainer(const Options& options)
    : model_(options.model),
      spec_(options.spec),
      tree_(job::tree_of(spec_.train)),
      reader_(options.reader),
      clock_(options.clock),
      store_(tree_, [this](std::span<const SharedSum> children) { return join(children); }),
      inner_store_(tree_, [this](std::span<const SharedSum> children) { return join(children); }),
      slice_memory_(compute::slice_memory(*model_, spec_.train, std::max(1, options.workers),
                                          options.slice_budget_bytes)),
      pool_(collective::FloatPool::create(element_count())),
      evaluated_tokens_(options.evaluated_tokens) {}

Result<std::unique_ptr<Trainer>> Trainer::create(Options options) {
  GPUNODE_CHECK(options.model && !options.devices.empty() && options.reader && options.clock,
                "a trainer needs model, device, data and clock");
  std::unique_ptr<Trainer> trainer(new Trainer(options));
  if (auto begun = trainer->make_parts(options); !begun) return begun.error();
  return trainer;
}

Trainer::~Trainer() {
  close_shared(nullptr);
}

// Whoever holds a sum of this device (null: of any) gets it now.
void Trainer::close_shared(const Device* device) {
  for (const auto& held : shared_) {
    const auto floats = held.lock();
    if (!floats || (device && floats->home() != device)) continue;
    const auto of = std::ranges::find_if(
        replicas_, [&](const auto& replica) { return &replica->device() == floats->home(); });
    floats->close(of == replicas_.end() ||
                  (*of)->use().device().condition() == DeviceCondition::lost);
  }
  std::erase_if(shared_, [](const auto& held) { return held.expired(); });
}

Result<void> Trainer::make_parts(const Options& options) {
  const bool local = spec_.exchange.mode == job::ExchangeMode::local;
  const std::vector<NodeDevice*>& devices = options.devices;
  for (NodeDevice* device : devices) {
    auto replica = Replica::open({.model = model_.get(),
                                  .device = device,
                                  .user = options.user,
                                  .optimizer = adamw_options(spec_.train),
                                  .inner_optimizer = inner_options(spec_),
                                  .tree = tree_,
                                  .workers = std::max(1, options.workers),
                                  .slices_at_once = slice_memory_.slices});
    if (!replica) return replica.error();
    replicas_.push_back(std::move(*replica));
  }
  if (devices.size() > 1) drivers_ = std::make_unique<WorkerPool>(static_cast<int>(devices.size()));
  const std::size_t capacity = spec_.train.slices * 2;
  prefetcher_ = std::make_unique<ingest::Prefetcher>(*reader_, *clock_, capacity);
  if (local) local_ = std::make_unique<LocalRound>(local_options());
  return install(0, {});
}

// Each device's thread does its own; the first failure, in the devices' order.
Result<void> Trainer::on_all(const std::function<Result<void>(Replica& replica)>& task) {
  if (replicas_.size() == 1) return first().use().run([&] { return task(first()); });
  std::vector<Result<void>> done(replicas_.size());
  drivers_->run(replicas_.size(), [&](int, std::size_t index) {
    Replica& replica = *replicas_[index];
    done[index] = replica.use().run([&] { return task(replica); });
  });
  for (std::size_t index = 0; index < done.size(); ++index)
    if (!done[index]) return done[index].error().within(replicas_[index]->name());
  return {};
}

// The tail is summed as the parameters are: left to right.
Result<SharedSum> Trainer::join(std::span<const SharedSum> children) {
  const std::size_t count = model_->parameter_count();
  Device& device = *children.front()->home;
  auto made = device.make_sum(pool_->take(), count);
  if (!made) return made;
  std::vector<SharedSum> here;
  std::vector<const float*> inputs;
  for (const SharedSum& child : children) {
    auto adopted = device.adopt(0, child);
    if (!adopted) return adopted;
    here.push_back(*std::move(adopted));
    inputs.push_back(here.back()->place());
  }
  if (auto done = device.add(0, inputs, {(*made)->place(), count}); !done) return done.error();
  for (std::size_t at = count; at < element_count(); ++at) {
    float total = (*children.front()->host)[at];
    for (const SharedSum& child : children.subspan(1)) total += (*child->host)[at];
    (*(*made)->host)[at] = total;
  }
  return made;
}

// A drained device does if the job has no other one: the node still has those that compute other
// bits.
bool Trainer::takes_slices(const Replica& replica) const {
  if (!replica.use().is_over()) return true;
  const bool any =
      std::ranges::any_of(replicas_, [](const auto& one) { return !one->use().is_over(); });
  return !any && &replica == replicas_.front().get();
}

// What a drained device has summed goes to another one.
Result<void> Trainer::let_drained_go() {
  for (std::size_t at = 0; at < replicas_.size();) {
    Replica& gone = *replicas_[at];
    if (takes_slices(gone)) {
      ++at;
      continue;
    }
    Replica& other = *replicas_[at == 0 ? 1 : 0];
    for (PartialStore* store : {&store_, &inner_store_}) {
      auto moved = store->move_sums([&](const SharedSum& sum) -> Result<SharedSum> {
        return sum->home == &gone.device() ? other.device().adopt(0, sum) : Result<SharedSum>(sum);
      });
      if (!moved) return moved;
    }
    for (NodeSum& kept : kept_) {
      if (kept.sum->home != &gone.device()) continue;
      auto adopted = other.device().adopt(0, kept.sum);
      if (!adopted) return adopted.error();
      kept.sum = *std::move(adopted);
    }
    if (carried_ && carried_->home == &gone.device()) carried_.reset();
    close_shared(&gone.device());
    replicas_.erase(replicas_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

void Trainer::want(std::uint64_t step, std::vector<TreeNode> cover, SumsGo sums_go) {
  GPUNODE_CHECK(step == step_ + 1, "only the step after the applied one can be computed");
  if (store_.step() != step) {
    store_.begin(step);
    times_ = {};
  }
  if (std::exchange(own_step_, step) != step) own_slices_.clear();
  if (local_) return local_->want(step_, std::move(cover));
  sums_go_ = sums_go;
  kept_.clear();
  carried_.reset();
  store_.want(std::move(cover));
  for (std::uint32_t slice : store_.missing()) own_slices_.insert(slice);
  plan_ahead();
}

void Trainer::discard_kept() {
  store_.discard();
  for (auto& replica : replicas_) replica->staged().drop();
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
  times.workers = 0;
  for (const auto& replica : replicas_)
    times.workers = static_cast<std::uint16_t>(times.workers + replica->workers().workers());
  return times;
}

Result<void> Trainer::compute_some(const TellRange& tell) {
  if (auto gone = let_drained_go(); !gone) return gone;
  if (local_) return compute_local(tell);
  if (auto told = tell_complete(tell); !told) return told;
  const Order order{.store = store_,
                    .data_step = step_,
                    .tell = tell,
                    .on_slice = [](std::uint32_t, const DataFingerprint&) {}};
  const bool has_several = replicas_.size() > 1;
  if (auto done = compute_missing(order); !done) return done;
  return has_several ? tell_complete(tell) : Result<void>();
}

// On a single device a block, on several all there is.
Result<void> Trainer::compute_missing(const Order& order) {
  if (replicas_.size() > 1) return compute_on_all(order);
  return first().use().run([&] { return compute_block(order); });
}

Result<void> Trainer::tell_complete(const TellRange& tell) {
  auto complete = store_.take_complete();
  if (!complete) return complete.error();
  for (NodeSum& whole : *complete) {
    if (sums_go_ == SumsGo::by_devices)
      kept_.push_back(std::move(whole));
    else if (auto told = tell_whole(tell, whole); !told)
      return told;
  }
  return {};
}

Result<void> Trainer::tell_whole(const TellRange& tell, const NodeSum& whole) {
  auto sum = share(whole.sum);
  if (!sum) return sum.error();
  tell({{0, step_ + 1, whole.node, *std::move(sum), whole.data_fingerprint, 0, element_count(),
         times_}});
  return {};
}

Result<void> Trainer::tell_kept(const TellRange& tell) {
  sums_go_ = SumsGo::to_members;
  return first().use().run([&]() -> Result<void> {
    for (const NodeSum& whole : std::exchange(kept_, {}))
      if (auto told = tell_whole(tell, whole); !told) return told;
    return {};
  });
}

Result<job::Carried> Trainer::carry(ops::DeviceGroup& group, const job::Carry& how) {
  GPUNODE_CHECK(idle() && sums_go_ == SumsGo::by_devices, "a step that is not to be carried");
  GroupSum by_group(group, first().device(), first().use(), first().workers(), *clock_);
  auto total = by_group.run(how, step_ + 1, tree_, kept_, pool_->take());
  if (!total) return total.error();
  carried_ = total->sum;
  auto shared = first().use().run([&] { return share(total->sum); });
  if (!shared) return shared.error();
  return job::Carried{0, step_ + 1, *std::move(shared), total->data_fingerprint};
}

// A whole sum as others may hold it.
Result<collective::SharedFloats> Trainer::share(const SharedSum& sum) {
  if (sum->home->shares_memory()) return collective::SharedFloats(sum->host);
  if (sums_go_ == SumsGo::to_members) {
    if (auto here = sum->home->bring_to_host(*sum); !here) return here.error();
    return collective::SharedFloats(sum->host);
  }
  auto floats = DeviceFloats::of(sum);
  if (!floats) return floats.error();
  std::lock_guard lock(share_mutex_);
  std::erase_if(shared_, [](const auto& held) { return held.expired(); });
  shared_.push_back(*floats);
  return DeviceFloats::shared(*floats);
}

}  // namespace gpunode::compute
