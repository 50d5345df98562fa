#include "tests/sim/job_truth.hpp"

#include "runtime/base/block_digest.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::sim {

Histories::Histories(const JobModel& model, const HistoryId& first) : model_(model), first_(first) {
  History& history = all_[first];
  history.settled = true;
  history.parent = first;
}

void Histories::begin(const HistoryId& id, const HistoryId& parent, std::uint64_t base_step,
                      bool from_checkpoint) {
  if (knows(id)) return;
  History history;
  history.parent = parent;
  history.base_step = base_step;
  history.from_checkpoint = from_checkpoint;
  history.salt = 1;
  history.salt = mix(mix(1, id.turn), id.mark);
  all_.emplace(id, std::move(history));
}

std::uint64_t Histories::salt(const HistoryId& id, std::uint64_t step) const {
  if (id == first_) return 0;
  const History& history = all_.at(id);
  const std::uint64_t own_from = history.base_step + (history.from_checkpoint ? 1 : 2);
  return step >= own_from ? history.salt : salt(history.parent, step);
}

// Finds the values that the history begins from.
bool Histories::settle(History& history) {
  if (history.settled) return !history.states.empty();
  const std::uint64_t base = history.base_step;
  const std::optional<Digest> from = base == 0 ? state(first_, 0) : state(history.parent, base);
  if (!from) return false;
  if (base == 0)
    history.values = model_.initial_state();
  else
    history.values = values_.at({base, *from});
  history.states.push_back(*from);
  history.sums.emplace_back();
  history.settled = true;
  return true;
}

void Histories::advance(const HistoryId& id, History& history, std::uint64_t step) {
  while (history.base_step + history.states.size() <= step) {
    const std::uint64_t next = history.base_step + history.states.size();
    const auto sum =
        model_.node_sum(history.states.back(), next, model_.tree.root(), salt(id, next));
    JobModel::apply(history.values, next, *sum);
    const Digest digest = block_digest_of(model_.bytes_of_state(history.values).view);
    history.states.push_back(digest);
    history.sums.push_back(digest_of(bytes_of(std::span<const float>(*sum))));
    values_[{next, digest}] = history.values;
  }
}

std::optional<Digest> Histories::state(const HistoryId& id, std::uint64_t step) {
  if (id == first_) {
    const Truth& truth = truth_of(model_);
    if (step >= truth.state.size()) return std::nullopt;
    if (step > 0) values_.try_emplace({step, truth.state[step]}, truth.values[step]);
    return truth.state[step];
  }
  History& history = all_.at(id);
  if (step < history.base_step) return state(history.parent, step);
  if (step > model_.total_steps || !settle(history)) return std::nullopt;
  advance(id, history, step);
  return history.states[step - history.base_step];
}

std::optional<Digest> Histories::sum(const HistoryId& id, std::uint64_t step) {
  if (id == first_) {
    const Truth& truth = truth_of(model_);
    return step < truth.result.size() ? std::optional(truth.result[step]) : std::nullopt;
  }
  History& history = all_.at(id);
  if (step <= history.base_step) return sum(history.parent, step);
  if (step > model_.total_steps || !settle(history)) return std::nullopt;
  advance(id, history, step);
  return history.sums[step - history.base_step];
}

bool Histories::begins_from(const HistoryId& id, const Digest& digest) {
  return state(id, all_.at(id).base_step) == digest;
}

bool Histories::is_an_end(const Digest& digest) {
  for (const auto& [id, history] : all_)
    if (state(id, model_.total_steps) == digest) return true;
  return false;
}

}  // namespace gpunode::sim
