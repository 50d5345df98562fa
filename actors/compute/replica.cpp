#include "actors/compute/replica.hpp"

#include <utility>

#include "kernels/model/model_code.hpp"

namespace gpunode::compute {

namespace {

// What the last measurement counts for in a device's speed.
constexpr double kNewest = 0.5;

}  // namespace

Replica::Replica(const Options& options)
    : use_(*options.device, options.user),
      workers_(options.workers),
      slices_at_once_(options.slices_at_once) {}

Result<std::unique_ptr<Replica>> Replica::open(const Options& options) {
  const model::Model& model = *options.model;
  ops::Backend& backend = options.device->backend();
  std::unique_ptr<Replica> made(new Replica(options));
  auto program = model::make_program(model, backend, made->workers_.workers());
  if (!program) return program.error();
  made->program_ = std::move(*program);
  auto device = Device::open(backend, made->workers_);
  if (!device) return device.error();
  made->device_ = std::move(*device);
  made->pass_ = std::make_unique<LayeredPass>(
      LayeredPass::Options{.program = made->program_.get(),
                           .workers = &made->workers_,
                           .device = made->device_.get(),
                           .stages = model.stages(),
                           .forward_stages = model.forward_stages().size(),
                           .parameter_count = model.parameter_count(),
                           .tree = options.tree,
                           .use = &made->use_,
                           .tokens_per_sample = model.tokens_per_sample()});
  auto state = DeviceState::allocate(*made->device_, model.parameter_count());
  if (!state) return state.error().within("state of " + model.name());
  made->state_ = *std::move(state);
  made->optimizer_ = std::make_unique<model::Adamw>(model.parameters(), options.optimizer, backend);
  if (auto placed = made->optimizer_->place_blocks(made->device_->spread()); !placed)
    return placed.error();
  if (options.inner_optimizer)
    if (auto inner = made->make_inner(model, *options.inner_optimizer); !inner)
      return inner.error();
  made->staged_ = std::make_unique<StagedState>(*made->optimizer_, *made->device_);
  made->told_traffic_ = backend.host_traffic();
  return made;
}

Result<void> Replica::make_inner(const model::Model& model, const model::AdamwOptions& options) {
  inner_optimizer_ =
      std::make_unique<model::Adamw>(model.parameters(), options, device_->backend());
  if (device_->shares_memory()) return {};
  auto state = DeviceState::allocate(*device_, model.parameter_count());
  if (!state) return state.error().within("inner steps of " + model.name());
  inner_state_ = *std::move(state);
  return {};
}

Result<void> Replica::load_inner(std::span<const float> weights) {
  if (device_->shares_memory()) return program_->load(weights);
  auto done = device_->to_device(0, weights, inner_state_.weights().data());
  return done ? program_->load(inner_state_.weights()) : done;
}

Result<void> Replica::update_inner(std::uint64_t step, std::span<const float> sum,
                                   const model::SumOf& of, const model::Adamw::Values& values) {
  const bool is_here = device_->shares_memory();
  const std::span<float> kept[] = {values.weights, values.first, values.second};
  float* const place = inner_state_.all().data();
  Result<void> done;
  if (!is_here) {
    if (auto grown = device_->pool().grow(inner_sum_, sum.size_bytes()); !grown) return grown;
    done = device_->to_device(0, sum, inner_sum_.as<float>());
    sum = {inner_sum_.as<const float>(), sum.size()};
  }
  for (std::size_t part = 0; part < 3 && done && !is_here; ++part)
    done = device_->to_device(0, kept[part], place + part * sum.size());
  if (!done) return done;
  const auto outcome = inner_optimizer_->apply(
      step, sum, of, is_here ? values : inner_state_.values(), device_->spread());
  if (!outcome) return outcome.error();
  for (std::size_t part = 0; part < 3 && done && !is_here; ++part)
    done = device_->to_host(0, place + part * sum.size(), kept[part]);
  return done;
}

// A total that is this member's own sum lies on its device already.
Result<model::StepOutcome> Replica::update(std::uint64_t step,
                                           const collective::SharedFloats& total,
                                           const SharedSum& own, const model::SumOf& of) {
  const std::size_t count = state_.count();
  std::span<const float> sum;
  if (device_->shares_memory()) {
    sum = std::span(*total).first(count);
  } else {
    if (own && own->home == device_.get()) {
      sum = {own->place(), count};
    } else {
      sum = std::span(*total).first(count);
      if (auto grown = device_->pool().grow(total_, sum.size_bytes()); !grown) return grown.error();
      if (auto done = device_->to_device(0, sum, total_.as<float>()); !done) return done.error();
      sum = {total_.as<const float>(), sum.size()};
    }
  }
  return optimizer_->apply(step, sum, of, state_.values(), device_->spread());
}

Result<std::optional<model::StepOutcome>> Replica::take_staged(
    std::uint64_t step, const collective::SharedFloats& total) {
  if (!staged_->is_of(step, total)) return std::optional<model::StepOutcome>();
  return staged_->take(state_);
}

Result<void> Replica::install(std::span<const float> weights) {
  auto done = device_->clear(0, state_.all().subspan(state_.count()));
  if (done) done = device_->to_device(0, weights, state_.weights().data());
  return done ? program_->load(state_.weights()) : done;
}

Result<void> Replica::install(ByteView state) {
  auto done = device_->write(0, state, state_.all().data());
  return done ? program_->load(state_.weights()) : done;
}

ops::HostTraffic Replica::take_host_traffic() {
  const ops::HostTraffic now = device_->backend().host_traffic();
  const ops::HostTraffic before = std::exchange(told_traffic_, now);
  return {now.to_device - before.to_device, now.to_host - before.to_host};
}

void Replica::note_speed(std::size_t slices, Duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  if (slices == 0 || seconds <= 0) return;
  const double now = static_cast<double>(slices) / seconds;
  speed_ = speed_ == 0 ? now : kNewest * now + (1 - kNewest) * speed_;
}

}  // namespace gpunode::compute
