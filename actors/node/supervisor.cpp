#include "actors/node/supervisor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/mailbox.hpp"
#include "actors/messages.hpp"

namespace gpunode::node {
namespace {

constexpr int kMaxRestarts = 5;

struct State {
  static inline const char* name = "supervisor";
  std::vector<Child> children;
  std::function<void(std::string)> on_failure;
  int restarts = 0;
};
using Self = caf::stateful_actor<State>;

void on_down(Self* self, const caf::down_msg& down) {
  State& state = self->state;
  for (Child& child : state.children) {
    if (child.actor.address() != down.source) continue;
    std::string reason = "the " + child.name + " actor failed: " + to_string(down.reason);
    if (child.restart && state.restarts++ < kMaxRestarts) {
      log::error("node", reason + "; it is started again");
      child.actor = child.restart();
      self->monitor(child.actor);
      return;
    }
    state.on_failure(reason);
    return;
  }
}

caf::behavior behaviour(Self* self, std::vector<Child> children,
                        std::function<void(std::string)> on_failure) {
  self->state.children = std::move(children);
  self->state.on_failure = std::move(on_failure);
  expect_known_messages(self);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  for (const Child& child : self->state.children) self->monitor(child.actor);
  return {
      [self](const Shutdown& shutdown) {  // a restarted child is known only here
        for (const Child& child : self->state.children)
          if (child.restart) self->send(child.actor, shutdown);
        self->quit();
      },
  };
}

}  // namespace

caf::actor spawn_supervisor(caf::actor_system& system, std::vector<Child> children,
                            std::function<void(std::string)> on_failure) {
  return system.spawn(behaviour, std::move(children), std::move(on_failure));
}

}  // namespace gpunode::node
