// Rounds of inner steps: exchange mode local.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "actors/compute/trainer.hpp"
#include "kernels/model/outer_step.hpp"

namespace gpunode::compute {

using collective::DataFingerprint;
using collective::TreeNode;

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

}  // namespace gpunode::compute
