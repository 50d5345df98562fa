// The checkpoints of a job on this node: those that it writes as a member, and, where members alone
// are no quorum, the copies that witnesses hold of them. The files are the checkpoint writer's;
// here is what the core and people are told of them.
#include "actors/job/detail/job_actor_state.hpp"
#include "runtime/base/log.hpp"

#include <utility>

namespace gpunode::jobs::actor {

namespace {

// States on their way to a disk that is slower than the steps: one if they are large.
constexpr std::uint64_t kMostOnTheWay = 4;
constexpr std::uint64_t kBytesOnTheWay = 64u << 20;

std::uint64_t on_the_way(const State& state) {
  return state.checkpoints_wanted.size() + state.checkpoints_writing;
}

bool is_crowded(const State& state) {
  const std::uint64_t count = on_the_way(state);
  const std::uint64_t bytes = (state.element_count - 1) * 3 * sizeof(float);  // of one
  return count > 0 && (count >= kMostOnTheWay || (count + 1) * bytes > kBytesOnTheWay);
}

}  // namespace

// Members need not write the same steps: each tells the newest that it has. The last step's is
// written always, and so is one that a stop or a leave waits for.
void due_checkpoint(Self* self, std::uint64_t step, const Digest& digest) {
  State& state = self->state;
  if (step < state.options.spec.train.steps && is_crowded(state)) {
    if (!state.left_out_told)
      note(self, "no checkpoint of step " + std::to_string(step) +
                     ": the disk is slower than checkpoint.every = " +
                     std::to_string(state.options.spec.checkpoint.every) + " and has yet to take " +
                     std::to_string(on_the_way(state)) +
                     " before it; steps are left out until it keeps up");
    state.checkpoint_left_out = state.left_out_told = true;
    return;
  }
  if (!std::exchange(state.checkpoint_left_out, false)) state.left_out_told = false;
  want_checkpoint(self, step, state.ledger->running(), digest);
}

void want_checkpoint(Self* self, std::uint64_t step, const collective::Fed& running,
                     const Digest& digest) {
  State& state = self->state;
  state.checkpoint_asked = step;
  const view::View& view = state.core->view();
  state.checkpoints_wanted[step] = {
      step, view.view_id, view.generation, view.rollback_count, running, digest, {}};
  self->send(state.trainer, ReadState{kCheckpointToken | step});
}

void on_checkpoint(Self* self, const CheckpointWritten& written) {
  State& state = self->state;
  if (!state.ledger) return;
  if (state.checkpoints_writing > 0) --state.checkpoints_writing;
  const std::string which = std::to_string(written.checkpoint.step);
  if (written.path) {
    state.ledger->on_checkpoint(written.checkpoint.step, *written.path);
    if (state.core) state.core->set_checkpoint(written.checkpoint);
    const bool small = state.core && state.core->status(now(self)).needs_lease;
    const double seconds = std::chrono::duration<double>(written.took).count();
    note(self, (written.copy ? "copy of the checkpoint of step " : "checkpoint of step ") + which +
                   (small ? " is durable here (" : " is durable (") +
                   std::to_string(seconds).substr(0, 5) + " s)");
  } else {
    const std::string text = "no " + std::string(written.copy ? "copy of the " : "") +
                             "checkpoint of step " + which + ": " + written.path.error().message();
    log::warning("job", state.options.spec.name + ": " + text);
    state.ledger->on_event(now(self), "warning: " + text);
    if (!written.copy) leave_full_disk(self, written.path.error());
  }
  if (written.copy) return;
  state.checkpoint_failed.reset();
  if (!written.path) state.checkpoint_failed = written.path.error();
  // A failed last checkpoint does not hold the job's end back: earlier ones stay, and it was said.
  state.checkpoint_done = std::max(state.checkpoint_done, written.checkpoint.step);
  maybe_end(self);
}

// From the disk, so that the members hold no copy of the state while witnesses are slow.
void read_saved(Self* self, const job::ReadSaved& order) {
  if (self->state.phase == JobPhase::finished) return;  // they get the result instead
  self->send(self->state.checkpoints, ReadCheckpoint{order.step, order.token});
}

void give_saved(Self* self, const CheckpointRead& read) {
  if (!read.state)
    note(self, "cannot give a copy of the checkpoint of step " + std::to_string(read.step) + ": " +
                   read.state.error().message());
  feed(self, [&](job::JobCore& core, Time t, job::Actions& out) {
    core.on_saved_read(t, read.token, read.state ? *read.state : SharedBytes{}, out);
  });
}

void keep_copy(Self* self, const job::KeepCopy& order) {
  State& state = self->state;
  if (!state.core || state.phase == JobPhase::finished) return;
  const job::Checkpoint& one = order.checkpoint;
  ++state.checkpoints_writing;
  self->send(state.checkpoints, WriteCheckpoint{one.step, state.core->view().view_id,
                                                one.epoch >> 32, one.epoch & 0xffffffff,
                                                one.running, one.state_digest, order.state, true});
}

}  // namespace gpunode::jobs::actor
