#include "actors/inference/detail/model_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <malloc.h>

#include <deque>

#include "actors/inference/row_answers.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference {
namespace {

struct Step {};   // to itself: the next pass
struct Probe {};  // of one who wants to know whether it computes
struct Rows {};   // wait at the desk

struct State {
  static inline const char* name = "model";
  std::unique_ptr<ServedModel> model;
  Load load;                                       // what made it
  const compute::NodeDevice* could_not = nullptr;  // it failed to move there
  std::deque<Generate> held;  // until the model has moved from a device that is drained
  bool stepping = false;      // a Step is under way
  caf::actor owner;
  Duration idle{};
  Time used{};                             // last
  std::optional<Time> ends_at_rest, ends;  // drained: from when on it may end, and when it does
  telemetry::Registry* metrics = nullptr;
  std::shared_ptr<ModelPulses> pulses;
  std::shared_ptr<ModelFigures> figures;  // once it is loaded
  std::shared_ptr<RowDesk> desk;          // open, if the model tells classes of rows
  std::string served_as, pulse;

  ~State() {
    if (desk) desk->close();  // however the actor ends, others have the desk
  }
};
constexpr auto kLookEvery = std::chrono::seconds(1);
// Who is drained waits for what is on its way to it, and looks so often whether all is answered.
constexpr auto kOnTheWay = std::chrono::milliseconds(300),
               kLookDrained = std::chrono::milliseconds(50);
using Self = caf::stateful_actor<State>;

// Whether it is on a device that is drained, and may find another one.
bool is_to_move(const State& state) {
  const compute::NodeDevice& from = state.model->device();
  if (from.condition() != compute::DeviceCondition::drained) return false;
  const auto to = state.load.choose_device();
  return to && *to != state.could_not;
}

// From a device that is drained to another one, once for each.
void move(Self* self) {
  State& state = self->state;
  const compute::NodeDevice& from = state.model->device();
  const auto to = state.load.choose_device();
  ServedModel::Options options = state.load.options;
  options.device = *to;
  options.draft_may_lack = true;
  state.pulses->begin_loading(state.pulse);
  const auto held = state.desk->hold();
  auto moved = ServedModel::move(*state.model, options);
  const std::string what = options.user + " on " + from.id() + ", which is drained, ";
  if (!moved) {
    state.could_not = *to;
    return log::warning("serving", what + "stays, as it could not move to " + (*to)->id() + ": " +
                                       moved.error().message());
  }
  log::info("serving", what + "goes on on " + (*to)->id());
  if (state.desk->is_open()) state.desk->replace(held, **moved);
  state.model = std::move(*moved);
  state.figures = state.model->figures();
  state.load.options = options;
  state.could_not = nullptr;
  self->send(state.owner,
             MovedBytes{caf::actor(self), state.model->facts().digest, state.model->bytes()});
}

void tell_load(State& state) {
  if (const TextEngine* texts = state.model->texts())
    state.figures->load(texts->under_way(), texts->waiting(), texts->cache_used());
}

// What only a text has, of a model that reads rows.
bool is_of_texts(const GenerateRequest& request) {
  return !request.prompt_tokens.empty() || !request.form.empty() || request.likely || request.echo;
}

void begin(State& state, Generate order) {
  state.used = state.load.options.clock->now();
  if (!state.model->texts() && is_of_texts(order.request))
    return order.reply(
        Error{ErrorCode::unsupported,
              "the model tells classes of rows: it has no tokens to take or to tell of, and "
              "neither an echo nor a form"});
  GivePiece give;
  if (order.send_piece)
    give = [teller = std::make_shared<PieceTeller>(order.request.stream, order.send_piece)](
               const TextPiece& piece) { return teller->add(piece); };
  std::string client = order.from.text() + '/' + order.request.client;
  state.model->begin(
      {.request = std::move(order.request),
       .deadline = order.deadline,
       .client = std::move(client),
       .give = std::move(give),
       .done = [&state, reply = std::move(order.reply)](const Result<GenerateAnswer>& answer) {
         state.figures->ended(answer);
         reply(answer ? Result<SharedBytes>(SharedBytes::from(encode(*answer)))
                      : Result<SharedBytes>(answer.error()));
       }});
}

// Whether it computes: as it did a moment ago, or does now.
Result<void> probed(const State& state) {
  if (!state.model) return {ErrorCode::unavailable, "the model is not loaded"};
  const Time begin = state.load.options.clock->now();
  if (auto known = state.pulses->known(state.pulse, begin)) return *known;
  auto done = [&] {
    const auto held = state.desk->hold();
    return state.model->probe();
  }();
  state.pulses->computed(state.pulse, begin, done);
  return done;
}

// Between two passes.
void answer(State& state, const Infer& order) {
  if (!state.model) return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
  state.used = state.load.options.clock->now();
  const std::uint64_t version = state.model->facts().version;
  const auto* request = std::get_if<InferRequest>(&order.request);
  if (const auto* asked = std::get_if<InferDescribe>(&order.request)) {
    if (asked->probe)
      if (auto done = probed(state); !done) return order.reply(done.error().within("probe"));
    InferDescription description = describe_tensors(*state.model);
    description.version = version;
    return order.reply(SharedBytes::from(encode_infer(description)));
  }
  if (state.desk->is_open())
    return state.desk->ask(*request, {}, order.deadline, told_by(order.reply));
  auto told = answer_tensors(*state.model, *request, *state.load.options.clock, order.deadline);
  if (told) told->version = version;
  state.figures->ended(told);
  told_by(order.reply)(told);
}

void beat(const State& state) {
  if (state.model) state.pulses->beat(state.pulse, state.load.options.clock->now());
}

// How others have it do something, however many orders wait.
template <class Message, caf::message_priority priority>
std::function<void()> reminder(Self* self) {
  return [me = caf::weak_actor_ptr(self->ctrl())] {
    if (auto there = me.lock())
      caf::anon_send<priority>(caf::actor_cast<caf::actor>(there), Message{});
  };
}

void offer_probes(Self* self) {
  self->state.pulses->probe_by(self->state.pulse,
                               reminder<Probe, caf::message_priority::high>(self));
}

// Makes a pass, and tells of one that failed; the others the model tells of by itself.
void pass(State& state) {
  if (auto done = state.model->pass(); !done)
    state.pulses->computed(state.pulse, state.load.options.clock->now(), std::move(done));
}

// One pass at a time, and what has come meanwhile before the next.
void go_on(Self* self) {
  State& state = self->state;
  if (!state.model) return;
  if (state.model->is_idle() && is_to_move(state)) move(self);
  if (!is_to_move(state))
    for (; !state.held.empty(); state.held.pop_front()) begin(state, std::move(state.held.front()));
  tell_load(state);
  if (state.stepping || state.model->is_idle()) return;
  state.stepping = true;
  self->send(self, Step{});
}

// What is free goes to the system: pieces of a model are small enough to be kept for reuse.
void give_memory_back() {
  malloc_trim(0);
}

void tell_whether_idle(Self* self) {
  State& state = self->state;
  if (state.idle <= Duration{} || state.ends) return;
  const Time now = state.load.options.clock->now();
  state.used = std::max(state.used, state.desk->last_asked());
  if (!state.held.empty() || !state.model->is_idle())
    state.used = now;
  else if (now - state.used >= state.idle)
    self->send(state.owner, IsIdle{self->address()});
}

void end(Self* self) {
  self->state.pulses->forget(self->state.pulse);
  self->state.desk->close();
  self->state.model.reset();
  if (self->state.figures) self->state.figures->load(0, 0, 0);
  give_memory_back();
  self->quit();
}

void look_whether_drained(Self* self) {
  State& state = self->state;
  const Time now = state.load.options.clock->now();
  const bool at_rest =
      !state.model || (state.held.empty() && state.model->is_idle() && state.desk->is_idle());
  if (now >= *state.ends || (at_rest && now >= *state.ends_at_rest)) return end(self);
  self->delayed_send(self, kLookDrained, Drain{});
}

// And tells its owner what came of it.
void load_model(Self* self, const Load& load) {
  State& state = self->state;
  const std::string& name = state.served_as;
  state.pulses->begin_loading(state.pulse);
  Load own = load;
  own.options.computed = [pulses = state.pulses, pulse = state.pulse, clock = load.options.clock] {
    pulses->computed(pulse, clock->now());
  };
  own.options.figures = [&metrics = *state.metrics, name](ModelFigures::Kind kind) {
    return std::make_shared<ModelFigures>(metrics, name, kind);
  };
  auto model = ServedModel::load(own.options);
  if (!model) {
    state.pulses->forget(state.pulse);
    give_memory_back();
    return self->send(state.owner, Loaded{name, self->address(), model.error()});
  }
  state.model = std::move(*model);
  state.load = std::move(own);
  state.used = load.options.clock->now();
  state.figures = state.model->figures();
  if (state.model->row_features() > 0) state.desk->open(*state.model);
  offer_probes(self);
  beat(self->state);
  self->delayed_send(self, kLookEvery, Tick{});
  self->send(state.owner,
             Loaded{name, self->address(), state.model->facts(), state.model->bytes(), state.desk});
}

caf::behavior behaviour(Self* self, ModelActorOptions options) {
  expect_known_messages(self);
  self->state.owner = options.owner;
  self->state.idle = options.idle;
  self->state.metrics = options.metrics;
  self->state.pulses = options.pulses;
  self->state.served_as = options.name;
  self->state.pulse = options.pulse.empty() ? options.name : options.pulse;
  self->state.desk = std::make_shared<RowDesk>(*options.clock,
                                               reminder<Rows, caf::message_priority::normal>(self));
  return {
      [self](const Load& load) { load_model(self, load); },
      [self](const Generate& order) {
        if (!self->state.model)
          return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
        self->state.held.push_back(order);
        go_on(self);
      },
      [self](const Infer& order) { answer(self->state, order); },
      [self](const Probe&) { static_cast<void>(probed(self->state)); },
      [self](const Rows&) {
        if (self->state.desk->work()) self->send(self, Rows{});
        beat(self->state);
      },
      [self](const Step&) {
        self->state.stepping = false;
        if (!self->state.model->is_idle()) pass(self->state);
        go_on(self);
        beat(self->state);
      },
      [self](const Tick&) {
        self->delayed_send(self, kLookEvery, Tick{});
        go_on(self);
        beat(self->state);
        tell_whether_idle(self);
      },
      [self](const SetVersion& version) {
        if (self->state.model) self->state.model->set_version(version.number);
      },
      [self](const ReadPiece& order) {
        if (!self->state.model)
          return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
        order.reply(self->state.model->image_piece(order.piece));
      },
      [self](const Drain& drain) {
        if (!self->state.ends) {
          self->state.ends = drain.until;
          self->state.ends_at_rest = self->state.load.options.clock->now() + kOnTheWay;
        }
        look_whether_drained(self);
      },
      [self](const Shutdown&) { end(self); },
  };
}

}  // namespace

RowDesk::Done told_by(CallReply reply) {
  return [reply = std::move(reply)](const Result<InferAnswer>& told) {
    reply(told ? Result<SharedBytes>(SharedBytes::from(encode_infer(*told)))
               : Result<SharedBytes>(told.error()));
  };
}

caf::actor spawn_model(caf::actor_system& system, ModelActorOptions options) {
  return system.spawn<caf::detached>(behaviour, std::move(options));
}

}  // namespace gpunode::inference
