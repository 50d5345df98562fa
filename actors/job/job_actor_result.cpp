// What is left to do after the job's last step: the validation loss, the last checkpoint, and then
// nodes that had a part in it and were away get its result, from that checkpoint on this node's
// disk, as the trainer is gone by then. Costs a thread and a copy of the state while one is read.
#include <algorithm>

#include "actors/job/detail/job_actor_state.hpp"
#include "actors/job/job_line.hpp"

namespace gpunode::jobs::actor {
namespace {

constexpr auto kWriteAgain = std::chrono::seconds(3);

// Who got the result of others makes it durable as they did.
void keep_result(Self* self) {
  State& state = self->state;
  const std::uint64_t step = state.core->committed();
  if (state.checkpoint_asked >= step) return;  // it was a member
  const collective::DataFingerprint running = state.core->running_data_fingerprint();
  const Digest digest = state.core->state_digest();
  state.ledger.on_result(now(self), step, running, digest);
  want_checkpoint(self, step, running, digest);
}

}  // namespace

void end(Self* self) {
  const bool before = self->state.options.core.has_result;
  note(self, before ? "finished before; its result is here, for who lacks it" : "finished");
  self->state.result_due.reset();
  self->state.ledger.on_finished(now(self));
  set_phase(self, JobPhase::finished);
  self->state.left.reset();
  self->state.disk.clear();
  give_up_group(self, "the job is finished");
  keep_history(self, true);
  self->send(self->state.trainer, Shutdown{});
  self->send(self->state.checkpoints, Shutdown{});
}

void on_finished(Self* self) {
  State& state = self->state;
  state.finished = true;
  // A witness, or one that got no result: it has nothing to evaluate or to keep.
  if (state.core->committed() < state.options.spec.train.steps) return end(self);
  if (state.evaluating) return;
  keep_result(self);
  state.evaluating = true;
  self->send(state.trainer, Evaluate{});
}

void on_evaluated(Self* self, const Evaluated& evaluated) {
  State& state = self->state;
  state.evaluating = false;
  if (evaluated.loss)
    state.ledger.set_validation(*evaluated.loss, evaluated.accuracy);
  else
    note(self, "no validation loss: " + evaluated.loss.error().message());
  if (evaluated.samples < evaluated.held_out_samples)
    note(self, "the validation loss is of " + std::to_string(evaluated.samples) +
                   " samples, spread evenly over the held-out part's " +
                   std::to_string(evaluated.held_out_samples));
  maybe_end(self);
}

void maybe_end(Self* self) {
  State& state = self->state;
  if (!state.finished || state.phase == JobPhase::finished) return;
  if (!state.ledger.seen().validation_loss && state.evaluating) return;
  if (state.checkpoint_done < state.options.spec.train.steps) return;
  end(self);
}

void keep_in_memory(Self* self) {
  self->state.result_due = now(self) + kWriteAgain;
  tell_supervisor(self);
}

void try_result_again(Self* self) {
  State& state = self->state;
  if (!state.result_due || !state.core || now(self) < *state.result_due) return;
  const std::uint64_t step = state.options.spec.train.steps;
  if (state.core->committed() < step) return state.result_due.reset();  // the job went back
  // Another node says that it has finished the job once the result is on its disk.
  const bool elsewhere = std::ranges::any_of(
      hints_of(*state.options.cluster->read(), state.options.id), has_result, &HeardHint::hint);
  if (state.finished && elsewhere) {
    warn(self, "the job's result is on other nodes' disks, and not on this one's");
    state.checkpoint_done = step;
    return maybe_end(self);
  }
  state.result_due = now(self) + kWriteAgain;
  if (state.checkpoints_wanted.empty() && state.checkpoints_writing == 0)
    want_checkpoint(self, step, state.core->running_data_fingerprint(), state.core->state_digest());
}

std::string unsaved_text(const State& state) {
  return "done, but the result is only in this node's memory: " +
         state.checkpoint_failed->message() + "; it is written again every " +
         std::to_string(kWriteAgain.count()) + " s until the disk takes it";
}

void read_state(Self* self, const job::ReadState& order) {
  State& state = self->state;
  if (state.phase != JobPhase::finished) return self->send(state.trainer, ReadState{order.token});
  const bool reads = state.result_token.has_value();
  state.result_token = order.token;
  if (reads) return;
  state.checkpoints = state.options.spawn_checkpoints(self);
  self->monitor(state.checkpoints);
  read_checkpoint(self, order.step, 0, false);
}

void give_result(Self* self, const CheckpointRead& read) {
  State& state = self->state;
  const std::uint64_t token = *std::exchange(state.result_token, std::nullopt);
  self->send(state.checkpoints, Shutdown{});
  if (!read.state)
    return note(self, "cannot give the result to others: " + read.state.error().message());
  feed(self, &job::JobCore::on_state_read, token, *read.state);
}

}  // namespace gpunode::jobs::actor
