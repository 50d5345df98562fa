// What a trainer does before a step is committed: the state after it, beside the one that stands,
// and forward of the next step as far as the weights for it are made.
#include <algorithm>

#include "actors/compute/trainer.hpp"

namespace gpunode::compute {

std::uint64_t Trainer::staged_bytes(const job::JobSpec& spec, const model::Model& model,
                                    std::uint64_t budget_bytes) {
  const std::uint64_t bytes = std::uint64_t{model.parameter_count()} * 3 * sizeof(float);
  return spec.exchange.mode == job::ExchangeMode::local || bytes > budget_bytes ? 0 : bytes;
}

// A sum that is clipped cannot be applied before all of it is here; most often the next one is too.
Result<void> Trainer::update_speculatively(std::uint64_t step,
                                           const collective::SharedFloats& total,
                                           std::uint64_t from, std::uint64_t count) {
  if (step != step_ + 1 || clipped_ || !speculates()) return {};
  GPUNODE_CHECK(total.size() == element_count(), "a total has one value a parameter and a tail");
  GPUNODE_CHECK(from <= total.size() && count <= total.size() - from, "outside the total");
  if (!first().staged().is_of(step, total))
    if (auto dropped = drop_ahead(); !dropped) return dropped;
  auto added = on_all([&](Replica& replica) -> Result<void> {
    StagedState& staged = replica.staged();
    if (!staged.is_of(step, total))
      if (auto begun = staged.begin(step, spec_.train.batch, total); !begun) return begun;
    return staged.add(from, count, replica.state());
  });
  if (!added) return added;
  // Which of several devices computes what of the next step is open.
  if (!idle() || replicas_.size() > 1) return {};
  return first().use().run([&] { return forward_ahead(); });
}

// The slices that this step began with: most often right.
void Trainer::begin_ahead() {
  Ahead& ahead = ahead_.emplace(Ahead{step_ + 1, first_block_, {}, {}});
  for (const std::uint32_t slice : ahead.slices) {
    ahead.data.push_back(prefetcher_->take({ahead.data_step, slice}));
    ahead.samples.push_back(samples_of(ahead.data.back()));
  }
  stages_loaded_ = 0;
}

Result<void> Trainer::forward_ahead() {
  const std::vector<model::ElementRange> stages = model_->forward_stages();
  std::size_t ready = 0;
  while (ready < stages.size() &&
         stages[ready].first + stages[ready].count <= first().staged().ready())
    ++ready;
  if (step_ + 1 >= spec_.train.steps || first_block_.empty() || ready == 0) return {};
  const Time begin = clock_->now();
  if (!ahead_) begin_ahead();
  if (ready <= stages_loaded_) return {};
  for (; stages_loaded_ < ready; ++stages_loaded_)
    if (auto done = first().program().load_part(first().staged().weights(), stages[stages_loaded_]);
        !done)
      return done;
  auto done = first().pass().forward_ahead(ahead_->samples, ready);
  ahead_times_.compute_us += collective::microseconds(clock_->now() - begin);
  return done;
}

// The staged state became the one that stands: the program lacks what it did not need so far.
Result<void> Trainer::load_rest() {
  if (!ahead_) return first().program().load(first().state().weights());
  const std::vector<model::ElementRange> stages = model_->forward_stages();
  for (; stages_loaded_ < stages.size(); ++stages_loaded_)
    if (auto done = first().program().load_part(first().state().weights(), stages[stages_loaded_]);
        !done)
      return done;
  return {};
}

// Gives up what was done for the next step; the program has the weights that stand again.
Result<void> Trainer::drop_ahead() {
  if (!ahead_) return {};
  const bool loaded = ahead_->data_step != step_ && stages_loaded_ > 0;
  ahead_.reset();
  first().pass().drop_ahead();
  ahead_times_ = {};
  return loaded ? first().program().load(first().state().weights()) : Result<void>();
}

// The data of the first of these slices, if forward of just these was done ahead of this step.
Result<std::vector<ingest::Slice>> Trainer::take_ahead(std::uint64_t data_step,
                                                       std::span<const std::uint32_t> slices) {
  if (!ahead_) return std::vector<ingest::Slice>();
  const bool same = data_step == ahead_->data_step && data_step == step_ &&
                    slices.size() >= ahead_->slices.size() &&
                    std::ranges::equal(ahead_->slices, slices.first(ahead_->slices.size()));
  if (!same) {
    if (auto dropped = drop_ahead(); !dropped) return dropped.error();
    return std::vector<ingest::Slice>();
  }
  std::vector<ingest::Slice> data = std::move(ahead_->data);
  ahead_.reset();
  return data;
}

}  // namespace gpunode::compute
