#include "actors/inference/detail/model_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference {
namespace {

struct State {
  static inline const char* name = "model";
  std::unique_ptr<ServedModel> model;
  Load load;                                       // what made it
  const compute::NodeDevice* could_not = nullptr;  // it failed to move there
};
constexpr auto kLookEvery = std::chrono::seconds(1);
using Self = caf::stateful_actor<State>;

// From a device that is drained to another one, once for each.
void move_if_drained(State& state) {
  if (!state.model) return;
  const compute::NodeDevice& from = state.model->device();
  if (from.condition() != compute::DeviceCondition::drained) return;
  const auto to = state.load.choose_device();
  if (!to || *to == state.could_not) return;
  ServedModel::Options options = state.load.options;
  options.device = *to;
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
}

caf::behavior behaviour(Self* self, caf::actor owner, std::string name,
                        telemetry::Registry* metrics) {
  expect_known_messages(self);
  return {
      [self, owner, name](const Load& load) {
        auto model = ServedModel::load(load.options);
        if (!model) return self->send(owner, Loaded{name, model.error()});
        self->state.model = std::move(*model);
        self->state.load = load;
        self->delayed_send(self, kLookEvery, Tick{});
        self->send(owner, Loaded{name, self->state.model->facts()});
      },
      [self, name, metrics](const Generate& order) {
        if (!self->state.model)
          return order.reply(Error{ErrorCode::unavailable, "the model is not loaded"});
        move_if_drained(self->state);
        ServedModel::Give give;
        if (order.send_piece)
          give = [teller = std::make_shared<PieceTeller>(order.request.stream, order.send_piece)](
                     std::string_view piece) { return teller->add(piece); };
        auto answer = self->state.model->generate(order.request, order.deadline, give);
        telemetry::Labels labels{{"model", name}};
        if (answer) {
          metrics->counter("gpunode_generated_tokens_total", "Tokens generated here", labels)
              .add(answer->tokens);
          metrics->histogram("gpunode_generate_seconds", "Time of a generated text", labels)
              .record(answer->seconds);
        } else {
          metrics->counter("gpunode_generate_failures_total", "Requests that failed here", labels)
              .add();
        }
        order.reply(answer ? Result<SharedBytes>(SharedBytes::from(encode(*answer)))
                           : Result<SharedBytes>(answer.error()));
      },
      [self](const Tick&) {
        self->delayed_send(self, kLookEvery, Tick{});
        move_if_drained(self->state);
      },
      [self](const Shutdown&) { self->quit(); },
  };
}

}  // namespace

caf::actor spawn_model(caf::actor_system& system, caf::actor owner, std::string name,
                       telemetry::Registry& metrics) {
  return system.spawn<caf::detached>(behaviour, std::move(owner), std::move(name), &metrics);
}

}  // namespace gpunode::inference
