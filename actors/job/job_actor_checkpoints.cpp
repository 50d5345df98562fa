// The checkpoints of a job on this node: those that it writes as a member, and, where members alone
// are no quorum, the copies that witnesses hold of them. The files are the checkpoint writer's;
// here is what the core and people are told of them.
#include "actors/job/detail/job_actor_state.hpp"

#include <algorithm>
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
  const std::uint64_t bytes = state.state_bytes();  // of one
  return count > 0 && (count >= kMostOnTheWay || (count + 1) * bytes > kBytesOnTheWay);
}

// A checkpoint that this node's votes say it held, and of which it has neither a newer one nor the
// damaged files: another hand removed it.
void tell_what_is_gone(Self* self, const CheckpointsFound& found) {
  const JobActorOptions& options = self->state.options;
  const auto votes = view::decode_votes(options.core.votes);
  if (!votes) return;
  const view::Floor& noted =
      votes->floor.name > votes->view.floor.name ? votes->floor : votes->view.floor;
  const auto held = std::ranges::find(noted.holders, options.core.self.node) != noted.holders.end();
  const bool damaged = std::ranges::any_of(found.damaged, [&](const DamagedCheckpoint& one) {
    return one.name.step >= noted.name.step;
  });
  if (held && !damaged && !found.failed && found.newest.name() < noted.name)
    warn(self, "checkpoints up to step " + std::to_string(noted.name.step) +
                   " that this node held are gone from its disk");
}

}  // namespace

// Members need not write the same steps: each tells the newest that it has. The last step's is
// written always, and so is one that a stop or a leave waits for.
void due_checkpoint(Self* self, std::uint64_t step, const Digest& digest) {
  State& state = self->state;
  if (step < state.options.spec.train.steps && is_crowded(state)) {
    if (state.left_out == 0)
      note(self, "no checkpoint of step " + std::to_string(step) +
                     ": the disk is slower than checkpoint.every = " +
                     std::to_string(state.options.spec.checkpoint.every) + " and has yet to take " +
                     std::to_string(on_the_way(state)) +
                     " before it; steps are left out until it keeps up");
    state.left_out = 2;
    return;
  }
  if (state.left_out > 0) --state.left_out;
  want_checkpoint(self, step, state.ledger.seen().running, digest);
}

void want_checkpoint(Self* self, std::uint64_t step, const collective::DataFingerprint& running,
                     const Digest& digest) {
  State& state = self->state;
  if (state.core->gives_way()) return;  // its name would be taken for the other part's
  state.checkpoint_asked = step;
  const view::View& view = state.core->view();
  const HistoryId history = state.core->state_history().value_or(view.history());
  state.checkpoints_wanted[step] = {step, history, running, digest, {}, false, {}};
  self->send(state.trainer, ReadState{kCheckpointToken | step});
}

void find_checkpoint(Self* self) {
  self->state.disk.add(now(self), {DiskWork::search, 0, false});
  view::View view;
  if (self->state.core)
    view = self->state.core->view();
  else if (auto votes = view::decode_votes(self->state.options.core.votes))
    view = std::move(votes->view);
  self->send(self->state.checkpoints, FindCheckpoint{std::move(view)});
}

void give_up_checkpoints(Self* self, const job::GiveUpCheckpoints& order) {
  State& state = self->state;
  state.checkpoints_wanted.clear();
  state.disk.add(now(self), {DiskWork::search, 0, false});
  self->send(state.checkpoints,
             SetAsideCheckpoints{{order.history, order.after},
                                 "made by a part of the job that gave way to another one"});
}

// The newest one here may be of a part of the job that gave way: then an older one counts.
void find_one_that_counts(Self* self) {
  const job::Checkpoint& newest = self->state.core->checkpoint();
  const bool counts = self->state.core->view().descends_from(newest.history, newest.step);
  if (!counts && newest.step > 0 && self->state.checkpoints) find_checkpoint(self);
}

void write_checkpoint(Self* self, WriteCheckpoint order) {
  State& state = self->state;
  ++state.checkpoints_writing;
  state.disk.add(now(self), {DiskWork::write, order.step, false});
  order.durable = state.core->status(now(self)).durable.name;
  order.kept = state.core->kept();
  state.keeping.on_checkpoint(std::move(order));
  keep_history(self);
}

void read_checkpoint(Self* self, std::uint64_t step, std::uint64_t token, bool restores) {
  self->state.disk.add(now(self), {DiskWork::read, step, restores});
  self->send(self->state.checkpoints, ReadCheckpoint{step, token});
}

void on_read(Self* self, const CheckpointRead& read) {
  self->state.disk.done(now(self), DiskWork::read);
  if (read.token != 0) return give_saved(self, read);
  if (self->state.result_token) return give_result(self, read);
  on_restored(self, read);
}

// One that cannot be read does not end this node's part: the core is told what is left here, once
// that is known, and another holder or an older checkpoint gives the state.
void on_restored(Self* self, const CheckpointRead& read) {
  State& state = self->state;
  if (read.state) return self->send(state.trainer, job::InstallState{read.step, *read.state});
  state.restore_failed = read.step;
  state.disk.add_first(now(self), {DiskWork::search, 0, true});
}

void on_found(Self* self, const CheckpointsFound& found) {
  State& state = self->state;
  state.disk.done(now(self), DiskWork::search);
  state.damaged = found.damaged;
  state.damaged_found += found.lost.size();
  if (found.failed)
    warn(self, "cannot look through the checkpoints of the job: " + found.failed->message());
  for (const DamagedCheckpoint& one : found.lost)
    warn(self, "the checkpoint of step " + std::to_string(one.name.step) +
                   " on this node is damaged: " + one.reason + "; kept in " + one.path);
  if (!found.lost.empty())
    note(self,
         found.newest.step == 0
             ? std::string("no intact checkpoint of the job is left on this node")
             : "the newest intact checkpoint here is of step " + std::to_string(found.newest.step));
  if (state.options.finds_checkpoint) tell_what_is_gone(self, found);
  if (found.gave_up && !*found.gave_up)
    return fail(self, found.gave_up->error().within(
                          "cannot set aside the checkpoints of the part that gives way"));
  if (found.gave_up) feed(self, &job::JobCore::on_given_up, found.newest);
  const auto failed = std::exchange(state.restore_failed, std::nullopt);
  if (state.core) {
    feed(self, [&](job::JobCore& core, Time t, job::Actions& out) {
      for (const DamagedCheckpoint& one : found.lost)
        if (one.name != found.newest.name())  // else it was written anew
          core.on_checkpoint_lost(t, one.name, found.newest, out);
      const bool named = std::any_of(found.lost.begin(), found.lost.end(),
                                     [&](const auto& one) { return one.name.step == failed; });
      if (failed && !named) core.on_checkpoint_lost(t, {{}, *failed}, found.newest, out);
      if (found.newest.step > 0) core.set_checkpoint(found.newest);
    });
  } else if (std::exchange(state.options.finds_checkpoint, false)) {
    state.options.core.checkpoint = found.newest;
    if (auto ready = std::exchange(state.awaits_search, std::nullopt)) begin(self, *ready);
  }
  tell_supervisor(self);
}

void watch_disk(Self* self) {
  State& state = self->state;
  const auto late = state.disk.late(now(self));
  if (!late) {
    if (std::exchange(state.disk_told, false)) note(self, "the disk of the checkpoints answers");
    return;
  }
  const auto in_seconds = [](Duration time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
  };
  std::string text = "the disk of the checkpoints does not answer: ";
  text += late->task.step > 0 ? "that of step " + std::to_string(late->task.step) + " is "
                              : std::string("the newest intact one is ");
  text += std::string(to_string(late->task.work)) + " since " + in_seconds(late->lasts);
  if (late->usual > Duration{}) text += ", which usually takes " + in_seconds(late->usual);
  if (state.disk.restores() && state.core) {
    state.disk.clear();
    return fail(self, {ErrorCode::timeout,
                       text + "; this node leaves the view, so that the others need not wait: look "
                              "at its disk, then start the node again"});
  }
  if (std::exchange(state.disk_told, true)) return;
  warn(self,
       text + (late->task.work == DiskWork::write ? "; it is not durable here, and training goes on"
                                                  : ""));
}

void note_anew(Self* self, const view::View& view) {
  const State& state = self->state;
  if (view.base_step > 0 || state.damaged.empty()) return;
  std::uint64_t newest = 0;
  for (const DamagedCheckpoint& one : state.damaged) newest = std::max(newest, one.name.step);
  warn(self, "the job begins anew from step 0, although this node has had " +
                 std::to_string(state.damaged.size()) + " checkpoints of it, up to step " +
                 std::to_string(newest) + ": they are set aside, and `gpunode job show` says why");
}

void on_checkpoint(Self* self, const CheckpointWritten& written) {
  State& state = self->state;
  state.disk.done(now(self), DiskWork::write);
  if (state.checkpoints_writing > 0) --state.checkpoints_writing;
  const std::string which = std::to_string(written.checkpoint.step);
  if (written.path) {
    state.ledger.on_checkpoint(written.checkpoint.step, *written.path);
    if (state.core) state.core->set_checkpoint(written.checkpoint);
    const double seconds = std::chrono::duration<double>(written.took).count();
    note(self, (written.copy ? "copy of the checkpoint of step " : "checkpoint of step ") + which +
                   " is on this node's disk (" + std::to_string(seconds).substr(0, 5) + " s)");
  } else if (written.copy || !state.result_due) {
    warn(self, "no " + std::string(written.copy ? "copy of the " : "") + "checkpoint of step " +
                   which + ": " + written.path.error().message());
  }
  if (written.copy) return;
  state.checkpoint_failed.reset();
  if (!written.path) state.checkpoint_failed = written.path.error();
  if (!written.path && written.checkpoint.step == state.options.spec.train.steps)
    return keep_in_memory(self);
  written.path ? stay_after_all(self) : leave_full_disk(self, written.path.error());
  // A failed one that is not the last holds nothing back: earlier ones stay, and it was said.
  state.checkpoint_done = std::max(state.checkpoint_done, written.checkpoint.step);
  maybe_end(self);
}

// From the disk, so that the members hold no copy of the state while witnesses are slow.
void read_saved(Self* self, const job::ReadSaved& order) {
  if (self->state.phase == JobPhase::finished) return;  // they get the result instead
  read_checkpoint(self, order.step, order.token, false);
}

void give_saved(Self* self, const CheckpointRead& read) {
  if (!read.state) {
    self->state.disk.add_first(now(self), {DiskWork::search, 0, false});
    note(self, "cannot give a copy of the checkpoint of step " + std::to_string(read.step) + ": " +
                   read.state.error().message());
  }
  feed(self, &job::JobCore::on_saved_read, read.token, read.state ? *read.state : SharedBytes{});
}

void keep_copy(Self* self, const job::KeepCopy& order) {
  State& state = self->state;
  if (!state.core || state.phase == JobPhase::finished) return;
  const job::Checkpoint& one = order.checkpoint;
  write_checkpoint(self,
                   {one.step, one.history, one.running, one.state_digest, order.state, true, {}});
}

// What lay on this node's disk when its part in the job began.
void tell_what_was_found(Self* self) {
  State& state = self->state;
  const std::uint64_t step = state.options.core.checkpoint.step;
  if (!state.damaged.empty())
    note(self, std::to_string(state.damaged.size()) +
                   " checkpoints of the job are set aside here, `gpunode job show` says why" +
                   (step == 0 ? "; no intact one is left" : ""));
  if (step > 0 && !state.options.core.has_result)
    note(self, "taken up again; the newest checkpoint here is of step " + std::to_string(step));
}

}  // namespace gpunode::jobs::actor
