#include "actors/compute/local_round.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::compute {

using collective::DataFingerprint;
using collective::TreeNode;

std::vector<std::uint32_t> LocalRound::slices_of(TreeNode node) const {
  std::vector<std::uint32_t> slices(options_.tree.width(node.level));
  for (std::uint32_t i = 0; i < slices.size(); ++i) slices[i] = options_.tree.first_slice(node) + i;
  return slices;
}

void LocalRound::want(std::uint64_t rounds_done, std::vector<TreeNode> nodes) {
  if (rounds_done != rounds_done_) {
    discard();
    rounds_done_ = rounds_done;
  }
  wanted_ = std::move(nodes);
  returned_.clear();
  if (!run_) return;
  const std::vector<std::uint32_t> wanted = missing();
  const bool still_wanted = std::ranges::all_of(run_->slices, [&](std::uint32_t slice) {
    return std::ranges::find(wanted, slice) != wanted.end();
  });
  if (!still_wanted) run_.reset();
}

void LocalRound::discard() {
  run_.reset();
  ahead_.reset();
  next_.reset();
  changes_.clear();
  wanted_.clear();
  returned_.clear();
}

void LocalRound::forget() {
  discard();
  moments_ = {};
}

void LocalRound::on_applied(std::span<const float> weights) {
  if (next_) moments_ = std::move(*next_);
  std::optional<Run> begun = std::exchange(ahead_, std::nullopt);
  discard();
  ++rounds_done_;
  if (!begun) return;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    begun->weights[i] += weights[i] - begun->start[i];
    begun->start[i] = weights[i];
  }
  run_ = std::move(begun);
}

std::vector<std::uint32_t> LocalRound::wanted_slices() const {
  std::vector<std::uint32_t> slices;
  for (const TreeNode& node : wanted_)
    for (std::uint32_t slice : slices_of(node)) slices.push_back(slice);
  std::ranges::sort(slices);
  return slices;
}

std::vector<std::uint32_t> LocalRound::missing() const {
  std::vector<std::uint32_t> slices = wanted_slices();
  std::erase_if(slices, [this](std::uint32_t slice) { return changes_.contains(slice); });
  return slices;
}

bool LocalRound::idle() const {
  if (returned_.size() < wanted_.size()) return false;
  const bool last = rounds_done_ + 1 >= options_.rounds;
  if (!options_.ahead || last || wanted_.empty()) return true;
  return (ahead_ ? ahead_->steps_done : 0) >= options_.inner_steps / 2;
}

Result<void> LocalRound::take_inner_step(std::uint64_t rounds_before, Run& run) const {
  const std::uint64_t data_step = rounds_before * options_.inner_steps + run.steps_done;
  auto sums = options_.sum_slices(data_step, run.slices, run.weights);
  if (!sums) return sums.error();
  std::uint64_t samples = 0;
  for (const auto& [slice, data_fingerprint] : sums->data_fingerprint) {
    run.data_fingerprint[slice] += data_fingerprint;
    samples += data_fingerprint.sample_count;
  }
  const std::span<const float> gradient(sums->sum);
  const std::span<const float> tail = gradient.subspan(run.weights.size());
  run.tails.resize(tail.size());
  for (std::size_t i = 0; i < tail.size(); ++i) run.tails[i] += static_cast<double>(tail[i]);
  if (auto done = options_.update(data_step + 1, gradient, samples, run.weights, run.moments);
      !done)
    return done;
  ++run.steps_done;
  return {};
}

void LocalRound::end_run() {
  auto change = std::make_shared<Change>();
  change->change = std::move(run_->start);
  for (std::size_t i = 0; i < run_->weights.size(); ++i) change->change[i] -= run_->weights[i];
  const double parts = static_cast<double>(run_->slices.size() * options_.inner_steps);
  for (const double sum : run_->tails) change->tail.push_back(static_cast<float>(sum / parts));
  change->data_fingerprint = std::move(run_->data_fingerprint);
  for (std::uint32_t slice : run_->slices) changes_[slice] = change;
  if (!next_) next_ = std::move(run_->moments);
  run_.reset();
}

// On the slices that are wanted now: most often those of the next round. Of several runs of this
// round the one of the first slice stands for all.
void LocalRound::begin_ahead(std::span<const float> weights) {
  ahead_ = Run{.slices = wanted_slices(),
               .start = {weights.begin(), weights.end()},
               .moments = next_ ? *next_ : moments_};
  options_.predict(changes_.at(ahead_->slices.front())->change, ahead_->start);
  ahead_->weights = ahead_->start;
}

Result<std::vector<NodeSum>> LocalRound::advance(std::span<const float> weights) {
  std::vector<NodeSum> complete = take_complete();
  if (!complete.empty() || idle()) return complete;
  if (works_ahead()) {
    if (!ahead_) begin_ahead(weights);
    if (auto done = take_inner_step(rounds_done_ + 1, *ahead_); !done) return done.error();
    return complete;
  }
  if (!run_) {
    run_ = Run{.slices = missing(), .start = {weights.begin(), weights.end()}, .moments = moments_};
    run_->weights = run_->start;
  }
  if (auto done = take_inner_step(rounds_done_, *run_); !done) return done.error();
  if (run_->steps_done == options_.inner_steps) end_run();
  return take_complete();
}

NodeSum LocalRound::sum_of(TreeNode node) const {
  std::map<std::shared_ptr<const Change>, std::uint32_t> parts;
  DataFingerprint data_fingerprint;
  // In the order of the slices, so that the sum does not follow from addresses.
  std::vector<std::shared_ptr<const Change>> order;
  for (std::uint32_t slice : slices_of(node)) {
    const std::shared_ptr<const Change>& change = changes_.at(slice);
    if (parts[change]++ == 0) order.push_back(change);
    if (const auto found = change->data_fingerprint.find(slice);
        found != change->data_fingerprint.end())
      data_fingerprint += found->second;
  }
  const std::size_t elements = order.front()->change.size();
  auto sum = std::make_shared<std::vector<float>>(elements + order.front()->tail.size());
  for (const auto& change : order) {
    const auto count = static_cast<float>(parts[change]);
    for (std::size_t i = 0; i < elements; ++i) (*sum)[i] += count * change->change[i];
    for (std::size_t i = 0; i < change->tail.size(); ++i)
      (*sum)[elements + i] += count * change->tail[i];
  }
  return {node, std::make_shared<Sum>(Sum{std::move(sum)}), data_fingerprint};
}

std::vector<NodeSum> LocalRound::take_complete() {
  std::vector<NodeSum> complete;
  for (const TreeNode& node : wanted_) {
    const bool whole = std::ranges::all_of(
        slices_of(node), [this](std::uint32_t slice) { return changes_.contains(slice); });
    if (whole && returned_.insert(node).second) complete.push_back(sum_of(node));
  }
  return complete;
}

}  // namespace gpunode::compute
