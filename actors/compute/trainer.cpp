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

// Nodes that one device computes at once, and the data that their samples lie in.
struct Trainer::Block {
  std::vector<SumTask> tasks;
  std::vector<PassNode> nodes;
  std::vector<DataFingerprint> fingerprints;  // by node
  std::vector<ingest::Slice> data;
  std::size_t ahead = 0;  // so many of the slices are begun
};

// At most `capacity` of a store's missing slices, of the samples of step data_step + 1.
Result<Trainer::Block> Trainer::next_block(Replica& replica, const Order& order,
                                           std::size_t capacity) {
  Block block;
  block.tasks = order.store.next(capacity, static_cast<std::size_t>(replica.workers().workers()));
  if (block.tasks.empty()) return block;
  std::vector<std::uint32_t> slices;
  for (const SumTask& task : block.tasks)
    slices.insert(slices.end(), task.slices.begin(), task.slices.end());
  if (&order.store == &store_ && times_.slices == 0) first_block_ = slices;
  auto taken = take_ahead(order.data_step, slices);
  if (!taken) return taken.error();
  block.data = std::move(*taken);
  block.ahead = block.data.size();
  block.data.reserve(slices.size());
  std::size_t next = 0;
  for (const SumTask& task : block.tasks) {
    auto sum = replica.device().make_sum(pool_->take(), model_->parameter_count());
    if (!sum) return sum.error();
    PassNode& node = block.nodes.emplace_back(PassNode{task, {}, *std::move(sum)});
    if (stays_on(replica, order)) node.task.wanted = false;  // nor does the host need it
    for (SharedSum& kept : node.task.kept_sums) {
      auto here = replica.device().adopt(0, kept);
      if (!here) return here.error();
      kept = *std::move(here);
    }
    DataFingerprint& data_fingerprint = block.fingerprints.emplace_back(task.kept_fingerprint);
    for (std::uint32_t slice : task.slices) {
      if (next == block.data.size())
        block.data.push_back(replica.use().apart([&] {
          return prefetcher_->take({order.data_step, slice});
        }));
      const ingest::Slice& read = block.data[next++];
      const DataFingerprint slice_fingerprint{read.data_fingerprint, read.samples.size()};
      order.on_slice(slice, slice_fingerprint);
      data_fingerprint += slice_fingerprint;
      node.samples.push_back(samples_of(read));
    }
  }
  return block;
}

// Tells the ranges of the block's wanted nodes; does not keep the sums.
Result<void> Trainer::compute_on(Replica& replica, const Order& order, Block& block) {
  const Duration starved = prefetcher_->starvation().waiting - order.waiting;
  std::atomic<std::size_t> untold = block.tasks.size() * element_count();
  const bool stays = stays_on(replica, order);
  const auto on_final = [&](std::size_t node, std::size_t first, std::size_t count) {
    if (stays) return;
    const bool last = untold.fetch_sub(count) == count;
    if (block.tasks[node].wanted)
      order.tell(
          {{0, step_ + 1, block.tasks[node].node, block.nodes[node].sum->host,
            block.fingerprints[node], first, count, spent(order.begin, starved, block.data.size())},
           last && replicas_.size() == 1});
  };
  auto done = replica.pass().run(block.nodes, on_final, block.ahead);
  return done && stays ? tell_shared(order, block, starved) : done;
}

// The wanted sums of a block that stay where they are.
Result<void> Trainer::tell_shared(const Order& order, const Block& block, Duration starved) {
  for (std::size_t node = 0; node < block.tasks.size(); ++node) {
    if (!block.tasks[node].wanted) continue;
    if (sums_go_ == SumsGo::by_devices) {
      std::lock_guard lock(share_mutex_);
      kept_.push_back({block.tasks[node].node, block.nodes[node].sum, block.fingerprints[node]});
      continue;
    }
    auto sum = share(block.nodes[node].sum);
    if (!sum) return sum.error();
    order.tell({{0, step_ + 1, block.tasks[node].node, *std::move(sum), block.fingerprints[node], 0,
                 element_count(), spent(order.begin, starved, block.data.size())},
                replicas_.size() == 1 && node + 1 == block.tasks.size()});
  }
  return {};
}

void Trainer::keep(const Order& order, Block& block) {
  for (std::size_t node = 0; node < block.tasks.size(); ++node)
    order.store.keep(block.tasks[node], std::move(block.nodes[node].sum), block.fingerprints[node]);
}

// The next block on the first device.
Result<void> Trainer::compute_block(Order order) {
  order.begin = clock_->now();
  order.waiting = prefetcher_->starvation().waiting;
  auto block = next_block(first(), order, slice_memory_.slices);
  if (!block) return block.error();
  if (block->tasks.empty()) return {};
  fault_point("slice", step_ + 1);
  if (auto done = compute_on(first(), order, *block); !done) return done;
  keep(order, *block);
  times_ =
      spent(order.begin, prefetcher_->starvation().waiting - order.waiting, block->data.size());
  return {};
}

// All that is missing, on all devices: each begins with its share by speed, as far as measured, and
// takes some more of the rest when it is through.
Result<void> Trainer::compute_on_all(Order order) {
  order.begin = clock_->now();
  order.waiting = prefetcher_->starvation().waiting;
  const std::size_t missing = order.store.missing().size();
  if (missing == 0) return {};
  double speeds = 0;
  bool all_known = true;
  for (const auto& replica : replicas_) {
    speeds += replica->speed();
    all_known = all_known && replica->speed() > 0;
  }
  std::size_t computed = 0;
  fault_point("slice", step_ + 1);
  auto done = on_all([&](Replica& replica) -> Result<void> {
    const double share =
        all_known ? replica.speed() / speeds : 1.0 / static_cast<double>(replicas_.size());
    auto capacity = static_cast<std::size_t>(std::lround(share * static_cast<double>(missing)));
    while (takes_slices(replica)) {
      capacity = std::clamp<std::size_t>(capacity, 1, replica.slices_at_once());
      auto lock = replica.use().apart([&] { return std::unique_lock(share_mutex_); });
      auto block = next_block(replica, order, capacity);
      if (!block || block->tasks.empty()) return block ? Result<void>() : block.error();
      lock.unlock();
      const Time begin = clock_->now();
      if (auto computing = compute_on(replica, order, *block); !computing) return computing;
      replica.note_speed(block->data.size(), clock_->now() - begin);
      lock.lock();
      keep(order, *block);
      computed += block->data.size();
      capacity = order.store.missing().size() / (2 * replicas_.size());
    }
    return {};
  });
  if (!done) return done;
  times_ = spent(order.begin, prefetcher_->starvation().waiting - order.waiting, computed);
  return {};
}

LocalRound::Options Trainer::local_options() {
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
  moments.first.resize(weights.size());
  moments.second.resize(weights.size());
  return first().use().run([&] {
    return first().update_inner(step, gradient.first(weights.size()), over(gradient, samples),
                                {weights, moments.first, moments.second});
  });
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
  auto loaded = on_all([&](Replica& replica) { return replica.load_inner(weights); });
  if (!loaded) return loaded.error();
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
  while (!inner_store_.missing().empty()) {
    if (auto gone = let_drained_go(); !gone) return gone.error();
    if (auto done = compute_missing({inner_store_, data_step, collect, on_slice}); !done)
      return done.error();
  }
  const auto bring = [&]() -> Result<void> {
    auto complete = inner_store_.take_complete();
    if (!complete) return complete.error();
    for (const NodeSum& whole : *complete) {
      if (auto here = whole.sum->home->bring_to_host(*whole.sum); !here) return here;
      nodes.emplace(whole.node, whole.sum->host);
    }
    return {};
  };
  if (auto here = replicas_.size() == 1 ? first().use().run(bring) : bring(); !here)
    return here.error();
  sums.sum.resize(element_count());
  for (const auto& [node, sum] : nodes)
    for (std::size_t i = 0; i < sums.sum.size(); ++i) sums.sum[i] += (*sum)[i];
  return sums;
}

// In mode local the host has weights and velocity, and the devices' states are copies of them.
model::StepOutcome Trainer::update_locally(std::span<const float> change) {
  const bool applied = model::apply_outer_step(outer_step(), change, host_weights_, velocity_);
  local_->on_applied(host_weights_);
  return {.skipped = !applied,
          .gradient_norm = 0,
          .learning_rate = spec_.exchange.outer_rate,
          .scale = 1};
}

Result<model::StepOutcome> Trainer::copy_to(Replica& replica, const model::StepOutcome& outer) {
  const model::Adamw::Values state = replica.state().values();
  auto done = replica.device().to_device(0, host_weights_, state.weights.data());
  if (done) done = replica.device().to_device(0, velocity_, state.first.data());
  if (!done) return done.error();
  return outer;
}

// This total, if it lies on a device of this node.
SharedSum Trainer::own_sum(const collective::SharedFloats& total) const {
  if (carried_ && carried_->host.get() == &total.host()) return carried_;
  return store_.sum_in(total.host());
}

// The outcomes are equal, as the devices' states and the total are.
Result<Trainer::Applying> Trainer::apply_on(Replica& replica, std::uint64_t step,
                                            const collective::SharedFloats& total,
                                            const std::optional<model::StepOutcome>& outer) {
  const Time begin = clock_->now();
  Applying done;
  auto staged = replica.take_staged(step, total);
  if (!staged) return staged.error();
  done.staged = staged->has_value();
  if (*staged) {
    done.outcome = **staged;
  } else {
    if (&replica == &first())
      if (auto dropped = drop_ahead(); !dropped) return dropped.error();
    const auto outcome =
        outer ? copy_to(replica, *outer)
              : replica.update(step, total, own_sum(total), over(total.host(), spec_.train.batch));
    if (!outcome) return outcome.error();
    done.outcome = *outcome;
  }
  replica.staged().drop();
  const Time optimized = clock_->now();
  const auto loaded_weights =
      done.staged && ahead_ ? load_rest() : replica.program().load(replica.state().weights());
  if (!loaded_weights) return loaded_weights.error();
  const Time loaded = clock_->now();
  const Result<Digest> digest =
      done.staged ? Result<Digest>(replica.staged().digest()) : replica.digest();
  if (!digest) return digest.error();
  done.state = *digest;
  done.optimizing = optimized - begin;
  done.loading = loaded - optimized;
  done.digesting = clock_->now() - loaded;
  return done;
}

// Who comes to another state than most is lost; where there is no most, all are.
Result<void> Trainer::compare_states(std::uint64_t step, std::span<const Applying> applied) {
  const auto agreeing = [&](const Applying& with) {
    return std::ranges::count(applied, with.state, &Applying::state);
  };
  if (agreeing(applied.front()) == std::ssize(applied)) return {};
  const Applying& usual = *std::ranges::max_element(applied, {}, agreeing);
  const bool is_most = 2 * agreeing(usual) > std::ssize(applied);
  Error error{ErrorCode::device_lost, ""};
  for (std::size_t at = 0; at < applied.size(); ++at) {
    if (is_most && applied[at].state == usual.state) continue;
    DeviceUse& use = replicas_[at]->use();
    const std::string text = use.device().id() + " (" + replicas_[at]->name() +
                             ") came to another state than the other devices in step " +
                             std::to_string(step) +
                             ": its memory or its arithmetic cannot be trusted";
    use.device().lose(text);
    error.detail += (error.detail.empty() ? "" : "; ") + text;
  }
  return error;
}

Result<StepReport> Trainer::apply(std::uint64_t step, const collective::SharedFloats& total) {
  GPUNODE_CHECK(step == step_ + 1, "steps are applied in order");
  GPUNODE_CHECK(total.size() == element_count(), "a total has one value a parameter and a tail");
  if (auto gone = let_drained_go(); !gone) return gone.error();
  const double weight = total.host().back();
  std::optional<model::StepOutcome> outer;
  if (local_) outer = update_locally(std::span(*total).first(model_->parameter_count()));
  std::vector<Applying> applied(replicas_.size());
  auto done = on_all([&](Replica& replica) -> Result<void> {
    auto one = apply_on(replica, step, total, outer);
    if (!one) return one.error();
    const auto at = std::ranges::find(replicas_, &replica, [](auto& held) { return held.get(); });
    applied[static_cast<std::size_t>(at - replicas_.begin())] = *one;
    return {};
  });
  if (!done) return done.error();
  if (auto same = compare_states(step, applied); !same) return same.error();
  const Applying& report = applied.front();
  clipped_ = report.outcome.scale < 1.0 / weight;
  step_ = step;
  store_.begin(step + 1);
  kept_.clear();
  carried_.reset();
  times_ = std::exchange(ahead_times_, {});
  ops::HostTraffic traffic;
  for (const auto& replica : replicas_) {
    const ops::HostTraffic one = replica->take_host_traffic();
    traffic.to_device += one.to_device;
    traffic.to_host += one.to_host;
  }
  return StepReport{
      .loss = weight > 0 ? double{total.host()[model_->parameter_count()]} / weight : 0,
      .gradient_norm = report.outcome.gradient_norm,
      .learning_rate = report.outcome.learning_rate,
      .skipped = report.outcome.skipped,
      .state = report.state,
      .host_traffic = traffic,
      .optimizing = report.optimizing,
      .loading = report.loading,
      .digesting = report.digesting};
}

Result<SharedBytes> Trainer::state_bytes() {
  Bytes bytes(first().state().bytes().size());
  auto done = first().use().run(
      [&] { return first().device().read(0, first().state().all().data(), bytes); });
  if (!done) return done.error();
  return SharedBytes::from(std::move(bytes));
}

Result<void> Trainer::install(std::uint64_t step, ByteView state) {
  if (local_) local_->forget();
  first().pass().drop_ahead();
  ahead_.reset();
  ahead_times_ = {};
  const bool initial = step == 0 && state.empty();
  if (!initial && state.size() != first().state().bytes().size())
    return Error{ErrorCode::corrupted, "a state of " + std::to_string(state.size()) +
                                           " bytes does not belong to this model"};
  std::vector<float> weights(initial ? model_->parameter_count() : 0);
  if (initial) model_->initialise(spec_.train.seed, weights);
  auto done = on_all([&](Replica& replica) {
    replica.staged().drop();
    return initial ? replica.install(weights) : replica.install(state);
  });
  if (done && local_) done = read_back();
  if (!done) return done;
  step_ = step;
  store_.begin(step + 1);
  store_.discard();
  return {};
}

// Of mode local: the host's copy of what the state is.
Result<void> Trainer::read_back() {
  host_weights_.resize(model_->parameter_count());
  velocity_.resize(model_->parameter_count());
  const model::Adamw::Values state = first().state().values();
  auto done = first().device().to_host(0, state.weights.data(), host_weights_);
  return done ? first().device().to_host(0, state.first.data(), velocity_) : done;
}

Result<Digest> Trainer::state_digest() {
  return first().use().run([&] { return first().digest(); });
}

Result<HeldOutLoss> Trainer::evaluate() {
  return first().use().run([&] { return evaluate_here(); });
}

Result<HeldOutLoss> Trainer::evaluate_here() {
  const dataset::Dataset& data = reader_->data();
  const std::uint64_t tokens = model_->tokens_per_sample();
  const std::uint64_t held_out = data.held_out_count();
  const std::uint64_t count =
      std::min(held_out, std::max<std::uint64_t>(1, evaluated_tokens_ / tokens));
  if (count == 0)
    return Error{ErrorCode::not_found,
                 "the held-out part has no whole sample of the model: raise "
                 "data.validation_fraction, or give a longer data.validation_path"};
  if (local_)  // the program may hold those of an inner step
    if (auto loaded = first().program().load(first().state().weights()); !loaded)
      return loaded.error();
  if (auto dropped = drop_ahead(); !dropped) return dropped.error();
  constexpr std::uint64_t kGroup = 16;
  const std::uint64_t groups = (count + kGroup - 1) / kGroup;
  std::vector<model::Evaluation> sums(groups);
  std::vector<std::optional<Error>> errors(groups);
  first().workers().run(groups, [&](int worker, std::size_t group) {
    const std::uint64_t begin = group * kGroup, end = std::min(count, begin + kGroup);
    const std::size_t size = data.sample_bytes();
    std::vector<std::uint8_t> bytes((end - begin) * size);
    std::vector<model::Sample> samples;
    for (std::uint64_t i = begin; i < end; ++i) {
      const auto place = std::span(bytes).subspan((i - begin) * size, size);
      data.read_held_out(i * held_out / count, std::as_writable_bytes(place));
      samples.push_back({i, place});
    }
    auto sum = first().program().evaluate(worker, samples);
    if (sum) sum = model::believed(*sum, {samples.size(), tokens});
    first().use().got_on();
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
