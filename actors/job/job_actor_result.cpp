// What is left to do after the job's end: nodes that had a part in it and were away get its result,
// from the last checkpoint on this node's disk, as the trainer is gone by then. Costs a thread and
// a copy of the state while one is read.
#include "actors/job/detail/job_actor_state.hpp"

namespace gpunode::jobs::actor {

void read_state(Self* self, const job::ReadState& order) {
  State& state = self->state;
  if (state.phase != JobPhase::finished) return self->send(state.trainer, ReadState{order.token});
  const bool reads = state.result_token.has_value();
  state.result_token = order.token;
  if (reads) return;
  state.checkpoints = state.options.spawn_checkpoints(self);
  self->monitor(state.checkpoints);
  self->send(state.checkpoints, ReadCheckpoint{order.step});
}

void give_result(Self* self, const CheckpointRead& read) {
  State& state = self->state;
  const std::uint64_t token = *std::exchange(state.result_token, std::nullopt);
  self->send(state.checkpoints, Shutdown{});
  if (!read.state)
    return note(self, "cannot give the result to others: " + read.state.error().message());
  feed(self, [&](job::JobCore& core, Time t, job::Actions& out) {
    core.on_state_read(t, token, *read.state, out);
  });
}

void keep_result(Self* self) {
  State& state = self->state;
  const std::uint64_t step = state.core->committed();
  if (state.checkpoint_asked >= step) return;  // it was a member
  const collective::Fed running = state.core->running_fed();
  const Digest digest = state.core->state_digest();
  state.ledger->on_result(step, running, digest);
  want_checkpoint(self, step, running, digest);
}

}  // namespace gpunode::jobs::actor
