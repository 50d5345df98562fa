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

struct Step {};  // to itself: the next pass

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
  telemetry::Gauge *under_way = nullptr, *waiting = nullptr;  // looked up once, as each pass tells
  std::string served_as;
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
  state.pulses->begin_loading(state.served_as);
  auto moved = ServedModel::move(*state.model, options);
  const std::string what = options.user + " on " + from.id() + ", which is drained, ";
  if (!moved) {
    state.could_not = *to;
    return log::warning("serving", what + "stays, as it could not move to " + (*to)->id() + ": " +
                                       moved.error().message());
  }
  log::info("serving", what + "goes on on " + (*to)->id());
  state.model = std::move(*moved);
  state.load.options = options;
  state.could_not = nullptr;
  self->send(state.owner,
             MovedBytes{caf::actor(self), state.model->facts().digest, state.model->bytes()});
}

void tell(const State& state, const Result<GenerateAnswer>& answer) {
  const telemetry::Labels labels{{"model", state.served_as}};
  if (!answer) {
    state.metrics->counter("gpunode_generate_failures_total", "Requests that failed here", labels)
        .add();
    return;
  }
  state.metrics->counter("gpunode_generated_tokens_total", "Tokens generated here", labels)
      .add(answer->tokens);
  state.metrics->histogram("gpunode_generate_seconds", "Time of a generated text", labels)
      .record(answer->seconds);
}

void tell_load(State& state) {
  const TextEngine* texts = state.model->texts();
  if (!texts) return;
  if (!state.under_way) {
    const telemetry::Labels labels{{"model", state.served_as}};
    state.under_way = &state.metrics->gauge("gpunode_texts_under_way",
                                            "Texts that are continued together", labels);
    state.waiting =
        &state.metrics->gauge("gpunode_texts_waiting", "Texts that are not begun yet", labels);
  }
  state.under_way->set(static_cast<double>(texts->under_way()));
  state.waiting->set(static_cast<double>(texts->waiting()));
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
  state.model->begin(
      {.request = std::move(order.request),
       .deadline = order.deadline,
       .client = order.from.text(),
       .give = std::move(give),
       .done = [&state, reply = std::move(order.reply)](const Result<GenerateAnswer>& answer) {
         tell(state, answer);
         reply(answer ? Result<SharedBytes>(SharedBytes::from(encode(*answer)))
                      : Result<SharedBytes>(answer.error()));
       }});
}

void tell_rows(const State& state, const Result<InferAnswer>& answer) {
  const telemetry::Labels labels{{"model", state.served_as}};
  if (!answer)
    return state.metrics
        ->counter("gpunode_infer_failures_total", "Requests with rows that failed here", labels)
        .add();
  state.metrics->counter("gpunode_infer_rows_total", "Rows answered here", labels)
      .add(static_cast<std::uint64_t>(answer->outputs.front().shape.front()));
  state.metrics->histogram("gpunode_infer_seconds", "Time of an answer to rows", labels)
      .record(answer->seconds);
}

// Between two passes.
void answer(State& state, const Infer& order) {
  if (!state.model) return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
  state.used = state.load.options.clock->now();
  const std::uint64_t version = state.model->facts().version;
  const auto* request = std::get_if<InferRequest>(&order.request);
  if (!request) {
    InferDescription description = describe_tensors(*state.model);
    description.version = version;
    return order.reply(SharedBytes::from(encode_infer(description)));
  }
  auto told = answer_rows(*state.model, *request, *state.load.options.clock, order.deadline);
  if (told) told->version = version;
  tell_rows(state, told);
  order.reply(told ? Result<SharedBytes>(SharedBytes::from(encode_infer(*told)))
                   : Result<SharedBytes>(told.error()));
}

void beat(const State& state) {
  if (state.model) state.pulses->beat(state.served_as, state.load.options.clock->now());
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
  if (!state.held.empty() || !state.model->is_idle())
    state.used = now;
  else if (now - state.used >= state.idle)
    self->send(state.owner, IsIdle{self->address()});
}

void end(Self* self) {
  self->state.pulses->forget(self->state.served_as);
  self->state.model.reset();
  give_memory_back();
  self->quit();
}

void look_whether_drained(Self* self) {
  State& state = self->state;
  const Time now = state.load.options.clock->now();
  const bool at_rest = !state.model || (state.held.empty() && state.model->is_idle());
  if (now >= *state.ends || (at_rest && now >= *state.ends_at_rest)) return end(self);
  self->delayed_send(self, kLookDrained, Drain{});
}

caf::behavior behaviour(Self* self, ModelActorOptions options) {
  expect_known_messages(self);
  self->state.owner = options.owner;
  self->state.idle = options.idle;
  self->state.metrics = options.metrics;
  self->state.pulses = options.pulses;
  self->state.served_as = options.name;
  return {
      [self, owner = options.owner, name = options.name](const Load& load) {
        self->state.pulses->begin_loading(name);
        auto model = ServedModel::load(load.options);
        if (!model) {
          self->state.pulses->forget(name);
          give_memory_back();
          return self->send(owner, Loaded{name, self->address(), model.error()});
        }
        self->state.model = std::move(*model);
        self->state.load = load;
        self->state.used = load.options.clock->now();
        beat(self->state);
        self->delayed_send(self, kLookEvery, Tick{});
        self->send(owner, Loaded{name, self->address(), self->state.model->facts(),
                                 self->state.model->bytes()});
      },
      [self](const Generate& order) {
        if (!self->state.model)
          return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
        self->state.held.push_back(order);
        go_on(self);
      },
      [self](const Infer& order) { answer(self->state, order); },
      [self](const Step&) {
        self->state.stepping = false;
        if (!self->state.model->is_idle()) self->state.model->pass();
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

caf::actor spawn_model(caf::actor_system& system, ModelActorOptions options) {
  return system.spawn<caf::detached>(behaviour, std::move(options));
}

}  // namespace gpunode::inference
