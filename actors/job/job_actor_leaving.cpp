// How this node's part in a job ends before the job does: its node leaves politely, its disk is
// full, or it fails. The core hands over what the others need; here are the driver's parts of it.
#include <caf/event_based_actor.hpp>

#include <utility>

#include "actors/job/detail/job_actor_state.hpp"

namespace gpunode::jobs::actor {

void fail(Self* self, const Error& error) {
  if (self->state.phase == JobPhase::failed) return;  // of a device that is lost, both may tell
  self->state.device_lost = error.code == ErrorCode::device_lost;
  note(self, "failed: " + error.message());
  feed(self, &job::JobCore::give_up, error.message());  // the others shall not wait for this node
  set_phase(self, JobPhase::failed, error.message());
  self->state.left.reset();
  self->state.disk.clear();
  give_up_group(self, error.message());
  keep_history(self, true);
  self->send(self->state.trainer, Shutdown{});
  self->send(self->state.checkpoints, Shutdown{});  // after what it has to write
  self->state.core.reset();
  self->state.early_peers.clear();
}

void on_leave(Self* self, const Leave& leave) {
  State& state = self->state;
  if (!state.core || is_over(state.phase)) return;
  state.left = leave.left;
  feed(self, &job::JobCore::request_leave, leave.timeout);
}

// This node leaves and is the last to hold the state.
void save_state(Self* self, std::uint64_t step) {
  State& state = self->state;
  if (state.checkpoint_asked == step) return;  // it is on its way
  want_checkpoint(self, step, state.core->running_data_fingerprint(), state.core->state_digest());
}

void on_left(Self* self) {
  const bool writes_the_end = self->state.finished && self->state.phase != JobPhase::finished;
  if (!writes_the_end) self->state.left.reset();
  if (self->state.leaves_for && !self->state.finished)
    fail(self,
         self->state.leaves_for->within("this node's part has ended, the other members go on"));
}

// A member that can store nothing any more is left out while others hold the state; the last one
// goes on without checkpoints.
void leave_full_disk(Self* self, const Error& error) {
  State& state = self->state;
  if (error.code != ErrorCode::disk_full || state.leaves_for || !state.core) return;
  state.leaves_for = error;
  feed(self, &job::JobCore::request_leave, job::kWhenOthersCan);
}

void stay_after_all(Self* self) {
  State& state = self->state;
  if (!std::exchange(state.leaves_for, std::nullopt) || state.left || state.finished) return;
  note(self, "the disk takes checkpoints again: this node stays in the job");
  feed(self, &job::JobCore::request_join);
}

void shut_down(Self* self) {
  give_up_group(self, "the node's part in the job ends");
  keep_history(self, true);
  self->send(self->state.trainer, Shutdown{});
  self->send(self->state.checkpoints, Shutdown{});
  self->set_down_handler([self](const caf::down_msg& down) {
    if (down.source == self->state.checkpoints.address()) self->quit();
  });
  self->monitor(self->state.checkpoints);  // anew, as it may have ended before
  self->set_default_handler(caf::drop);
  self->become([](const Tick&) {});
}

}  // namespace gpunode::jobs::actor
