#include "actors/checkpoint/checkpoint_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/checkpoint/checkpoint_shelf.hpp"
#include "actors/mailbox.hpp"
#include "actors/messages.hpp"

namespace gpunode::checkpoint {
namespace {

struct State {
  static inline const char* name = "checkpoint";
  std::optional<CheckpointShelf> shelf;
  caf::actor job;
};
using Self = caf::stateful_actor<State>;

job::Checkpoint checkpoint_of(const WriteCheckpoint& order) {
  return {order.step, order.state_digest, order.running, order.history};
}

// What is left is told once it has been looked through, which may take long.
void tell_lost(Self* self) {
  if (self->state.shelf->has_lost()) self->send(self->state.job, self->state.shelf->find());
}

caf::behavior behaviour(Self* self, caf::actor job, std::shared_ptr<CheckpointOptions> options) {
  State& state = self->state;
  state.shelf.emplace(std::move(*options));
  state.job = std::move(job);
  expect_known_messages(self);
  // It does not outlive its job, however that ended.
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(self->state.job);
  return {
      [self](const FindCheckpoint& order) {
        self->state.shelf->follow(order.view);
        self->send(self->state.job, self->state.shelf->find());
      },
      [self](const SetAsideCheckpoints& order) {
        const Result<void> done = self->state.shelf->give_up(order.after, order.reason);
        CheckpointsFound found = self->state.shelf->find();
        found.gave_up = done;
        self->send(self->state.job, std::move(found));
      },
      [self](const WriteCheckpoint& order) {
        CheckpointShelf& shelf = *self->state.shelf;
        Time begin = shelf.options().clock->now();
        Result<std::string> path = shelf.write(order);
        self->send(self->state.job,
                   CheckpointWritten{checkpoint_of(order), order.copy, std::move(path),
                                     shelf.options().clock->now() - begin});
        tell_lost(self);
      },
      [self](const ReadCheckpoint& order) {
        Result<SharedBytes> state = self->state.shelf->read(order.step);
        const bool failed = !state;
        self->send(self->state.job, CheckpointRead{order.step, order.token, std::move(state)});
        if (failed) self->send(self->state.job, self->state.shelf->find());
      },
      [self](const Shutdown&) { self->quit(); },
  };
}

}  // namespace

caf::actor spawn_checkpoints(caf::actor_system& system, caf::actor job, CheckpointOptions options) {
  return system.spawn<caf::detached>(behaviour, std::move(job),
                                     std::make_shared<CheckpointOptions>(std::move(options)));
}

}  // namespace gpunode::checkpoint
