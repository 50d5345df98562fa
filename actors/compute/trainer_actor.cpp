#include "actors/compute/trainer_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <cmath>
#include <exception>
#include <optional>

#include "actors/compute/device_peak.hpp"
#include "actors/compute/group_actor.hpp"
#include "actors/inline_delivery.hpp"
#include "actors/mailbox.hpp"
#include "actors/messages.hpp"
#include "kernels/model/model_code.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/low_priority.hpp"

namespace gpunode::compute {
namespace {

struct Continue {};  // to itself: the next wave of slices

struct State {
  static inline const char* name = "trainer";
  caf::actor job;
  std::unique_ptr<InlineDelivery> to_job;  // an idle job takes a sum or an update on this thread
  std::unique_ptr<Trainer> trainer;
  const Clock* clock = nullptr;
  std::shared_ptr<telemetry::SpanRing> spans;
  std::string model;             // its kind: whose code it is that may throw
  std::uint64_t compute_id = 0;  // of the last one, and the step that it is about
  std::uint64_t step = 0;
  bool continuing = false;
  std::shared_ptr<ops::DeviceGroup> group;  // null: none stands
  std::optional<job::Carry> carry;          // of the step in work, still to be done
  NodeDevice* group_device = nullptr;       // whose it is
};
using Self = caf::stateful_actor<State>;

void fail(Self* self, const Error& error) {
  self->send(self->state.job, TrainerFailed{error});
}

void record(Self* self, telemetry::SpanKind kind, std::uint64_t amount, Time begin) {
  State& state = self->state;
  if (!state.spans) return;
  state.spans->add({kind, telemetry::kNobody, 1, state.step, amount, begin, state.clock->now()});
}

// The fingerprint of the first device. Devices that compute other bits than it are left out, as who
// computes a slice may not show in the result.
Result<model::Fingerprint> keep_equal_devices(Trainer::Options& options) {
  std::optional<model::Fingerprint> wanted;
  std::vector<NodeDevice*> equal;
  for (NodeDevice* device : options.devices) {
    DeviceUse use(*device, options.user);
    auto found = use.run([&] {
      return fingerprint_of(options.spec.train, *options.model, device->backend(),
                            options.reader->data());
    });
    if (!found) return found.error().within(device->id());
    if (!wanted) wanted = *found;
    if (found->digest == wanted->digest)
      equal.push_back(device);
    else
      log::warning("trainer",
                   device->id() + " takes no part in the job: it computes other bits than " +
                       equal.front()->id() + " (" + found->text + "; " + wanted->text + ")");
  }
  options.devices = std::move(equal);
  return *wanted;
}

// Of all that the job computes on here; 0: not known.
double peak_of(const Trainer::Options& options) {
  const Precision precision = options.spec.train.precision;
  double sum = 0;
  for (NodeDevice* device : options.devices) {
    DeviceUse use(*device, options.user);
    if (auto done = measure_peak(use, options.workers, precision, *options.clock); !done)
      log::warning("trainer", device->id() + ": how fast it is could not be measured: " +
                                  done.error().message());
    if (device->peak_flops(precision) == 0) return 0;
    sum += device->peak_flops(precision);
  }
  return sum;
}

void tell_what_is_left_out(Trainer::Options& options) {
  const bool whole =
      Trainer::staged_bytes(options.spec, *options.model, Trainer::kStageBudgetBytes) > 0;
  const std::string note = devices_note(options.devices, whole);
  if (!note.empty()) log::warning("trainer", note);
}

// Makes the trainer ready on this thread and tells the job who it is.
void prepare(Self* self, Trainer::Options options) {
  // On the CPU; a thread that feeds another device takes little, and must not be late.
  if (options.devices.front()->backend().capabilities().host_accessible) take_low_priority();
  if (options.check_data)
    if (auto same = options.check_data(); !same) return fail(self, same.error());
  const model::Model& model = *options.model;
  auto fingerprint = keep_equal_devices(options);
  if (!fingerprint) return fail(self, fingerprint.error());
  tell_what_is_left_out(options);
  std::uint64_t tokens = model.tokens_per_sample();
  double slice_flops = model.slice_flops(samples_per_slice(options.spec.train));
  if (!std::isfinite(slice_flops) || slice_flops < 0) slice_flops = 0;  // it does not know
  const double peak_flops = slice_flops > 0 ? peak_of(options) : 0;
  self->state.clock = options.clock;
  self->state.spans = options.spans;
  const bool forms_groups = options.devices.front()->backend().capabilities().forms_groups;
  auto trainer = Trainer::create(std::move(options));
  if (!trainer) return fail(self, trainer.error());
  self->state.trainer = std::move(*trainer);
  const auto digest = self->state.trainer->state_digest();
  if (!digest) {
    self->state.trainer.reset();
    return fail(self, digest.error());
  }
  self->send(self->state.job,
             TrainerReady{self->state.trainer->element_count(), fingerprint->digest,
                          fingerprint->text, *digest, tokens, self->state.trainer->speculates(),
                          forms_groups, slice_flops, peak_flops});
}

void keep_going(Self* self) {
  if (self->state.continuing) return;
  self->state.continuing = true;
  self->send(self, Continue{});
}

// Ranges leave on the job's own thread while this one and the workers go on computing; after the
// last one there is nothing to compute, so an idle job takes it here.
Result<void> compute_block(Self* self) {
  const State& state = self->state;
  const Time begin = state.clock->now();
  const std::uint16_t before = state.trainer->times().slices;
  std::optional<job::PartialRange> last;
  auto done = state.trainer->compute_some([&](SumRange range) {  // on any worker's thread
    job::PartialRange& ready = range;
    ready.compute_id = state.compute_id;
    if (range.ends_block)
      last = std::move(ready);
    else
      caf::anon_send(state.job, std::move(ready));
  });
  record(self, telemetry::SpanKind::compute, state.trainer->times().slices - before, begin);
  if (last) state.to_job->deliver(state.job, std::move(*last));
  return done;
}

void tell_kept(Self* self) {
  State& state = self->state;
  auto told = state.trainer->tell_kept([&](SumRange range) {
    job::PartialRange& ready = range;
    ready.compute_id = state.compute_id;
    caf::anon_send(state.job, std::move(ready));
  });
  if (!told) fail(self, told.error());
}

// The step's sums are whole: they go to the other members' devices, or, where that breaks, to the
// members as ever.
void carry(Self* self) {
  State& state = self->state;
  const job::Carry how = *std::exchange(state.carry, std::nullopt);
  self->send(state.job, SumsWhole{state.compute_id, state.trainer->times()});
  const Time begin = state.clock->now();
  const bool is_here = state.group_device == &state.trainer->first_device();
  Result<job::Carried> carried =
      is_here ? state.trainer->carry(*state.group, how)
              : Error{ErrorCode::unavailable, "the device that is in the group was drained"};
  if (carried) {
    carried->compute_id = state.compute_id;
    record(self, telemetry::SpanKind::gather, 0, begin);
    return state.to_job->deliver(state.job, *std::move(carried));
  }
  if (carried.error().code == ErrorCode::device_lost) return fail(self, carried.error());
  state.group->give_up(carried.error().message());
  state.group.reset();
  self->send(state.job, GroupBroken{carried.error().message()});
  tell_kept(self);
}

void compute_wave(Self* self) {
  Trainer& trainer = *self->state.trainer;
  self->state.continuing = false;
  if (trainer.step() + 1 != self->state.step) return;  // applied meanwhile
  auto done = compute_block(self);
  if (!done) return fail(self, done.error());
  if (!trainer.idle()) return keep_going(self);
  if (self->state.carry) carry(self);
}

SumsGo where_sums_go(const job::Compute& compute) {
  if (compute.carry) return SumsGo::by_devices;
  return compute.alone ? SumsGo::nowhere : SumsGo::to_members;
}

// Of a step whose sums are still to be carried, or were, all are told.
void close_group(Self* self, const job::CloseGroup& order) {
  State& state = self->state;
  state.group.reset();
  state.carry.reset();
  if (order.step == state.step && state.trainer->step() + 1 == state.step) tell_kept(self);
}

void begin_step(Self* self, const job::Compute& compute) {
  Trainer& trainer = *self->state.trainer;
  if (compute.step != trainer.step() + 1) return;  // of a view that is over
  self->state.compute_id = compute.id;
  self->state.step = compute.step;
  if (compute.discard_kept) trainer.discard_kept();
  self->state.carry = compute.carry;
  trainer.want(compute.step, compute.nodes, where_sums_go(compute));
  if (compute.carry && !self->state.group) {  // closed meanwhile, as the job knows or will hear
    self->state.carry.reset();
    tell_kept(self);
  }
  keep_going(self);
}

void update_speculatively(Self* self, const job::SpeculativeUpdate& part) {
  const Time begin = self->state.clock->now();
  auto done =
      self->state.trainer->update_speculatively(part.step, part.result, part.first, part.count);
  if (!done) return fail(self, done.error());
  record(self, telemetry::SpanKind::speculative, 0, begin);
}

void apply_total(Self* self, const ApplyTotal& order) {
  const Time begin = self->state.clock->now();
  auto report = self->state.trainer->apply(order.step, order.total);
  if (!report) return fail(self, report.error());
  self->state.step = order.step;
  record(self, telemetry::SpanKind::apply, 0, begin);
  self->state.to_job->deliver(
      self->state.job, Applied{order.step, report->loss, report->skipped, report->state,
                               report->host_traffic.to_device, report->host_traffic.to_host});
}

void evaluate(Self* self) {
  auto held_out =
      model::guarded("the model's evaluation", [&] { return self->state.trainer->evaluate(); });
  if (!held_out) return self->send(self->state.job, Evaluated{held_out.error()});
  self->send(self->state.job, Evaluated{held_out->loss, held_out->samples,
                                        held_out->held_out_samples, held_out->accuracy});
}

// The model throws, or the standard library where memory or threads run out: the job is told what
// it was.
caf::error end_by(Self* self, const std::exception_ptr& thrown) {
  fail(self, model::thrown_error("the code of model '" + self->state.model + "'", thrown));
  return make_error(caf::exit_reason::unhandled_exception);
}

caf::behavior behaviour(Self* self, caf::actor job, std::shared_ptr<Trainer::Options> options) {
  self->state.job = std::move(job);
  self->state.to_job = std::make_unique<InlineDelivery>(self->system());
  expect_known_messages(self);
  // No device thread outlives its job, however that ended.
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(self->state.job);
  self->set_exception_handler([self](std::exception_ptr& thrown) { return end_by(self, thrown); });
  self->state.model = options->model->kind();
  prepare(self, std::move(*options));
  if (!self->state.trainer) {  // the job has been told why, and ends it
    ignore_all_messages(self);
    return {[self](const Shutdown&) { self->quit(); }};
  }
  return {
      [self](const job::Compute& compute) { begin_step(self, compute); },
      [self](const Continue&) { compute_wave(self); },
      [self](const job::SpeculativeUpdate& part) { update_speculatively(self, part); },
      [self](const ApplyTotal& order) { apply_total(self, order); },
      [self](const ReadState& order) {
        auto state = self->state.trainer->state_bytes();
        if (!state) return fail(self, state.error());
        self->send(self->state.job,
                   StateRead{order.token, self->state.trainer->step(), *std::move(state)});
      },
      [self](const job::InstallState& order) {
        auto done = self->state.trainer->install(order.step, order.state.view);
        if (!done) return fail(self, done.error());
        self->send(self->state.job, StateInstalled{order.step});
      },
      [self](const FormGroup& order) {
        NodeDevice& device = self->state.trainer->first_device();
        self->state.group_device = &device;
        spawn_group(self->system(), self->state.job, device, order);
      },
      [](const DropGroup&) {},
      [self](const UseGroup& use) { self->state.group = use.group; },
      [self](const job::CloseGroup& order) { close_group(self, order); },
      [self](const Evaluate&) { evaluate(self); },
      [self](const Shutdown&) { self->quit(); },
  };
}

}  // namespace

// Which of several devices has which slices of the next step is open until they take them, so none
// can begin with forward.
std::string devices_note(const std::vector<NodeDevice*>& devices, bool speculates) {
  if (devices.size() < 2 || !speculates) return {};
  return "with " + std::to_string(devices.size()) +
         " devices the forward pass of a step waits for the commit of the one before it; a single "
         "device begins it ahead";
}

caf::actor spawn_trainer(caf::actor_system& system, caf::actor job, Trainer::Options options) {
  return system.spawn<caf::detached>(behaviour, std::move(job),
                                     std::make_shared<Trainer::Options>(std::move(options)));
}

}  // namespace gpunode::compute
