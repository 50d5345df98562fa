// The state: updates and their comparison between devices; what is read, installed and evaluated.
#include <algorithm>
#include <utility>

#include "actors/compute/trainer.hpp"
#include "kernels/model/model_code.hpp"
#include "runtime/base/fault_point.hpp"

namespace gpunode::compute {

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
