// What the files of the job actor share: its state, and the functions that they call of each other.
// Included by job_actor.cpp (moves things between mailboxes, disk, link and core) and by its
// job_actor_*.cpp alone: begin (makes the core), status (what people and the job board are told),
// orders (what people order), leaving (how this node's part ends before the job), result (what is
// left to do after it), checkpoints (and copies of them on witnesses), history (what is kept of the
// job over restarts).
#pragma once

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/job/disk_watch.hpp"
#include "actors/job/history_policy.hpp"
#include "actors/job/job_actor.hpp"
#include "actors/job/job_ledger.hpp"
#include "actors/job/job_note_codec.hpp"
#include "runtime/job/job_core.hpp"

namespace gpunode::jobs::actor {

// Marks a ReadState of ours among the core's; the rest of the token is the step.
inline constexpr std::uint64_t kCheckpointToken = std::uint64_t{1} << 63;

using CoreInput = std::function<void(job::JobCore&, Time, job::Actions&)>;

// A person's order that is not carried out yet.
struct Order {
  Command command;
  Time since;
  std::uint32_t generation = 0;  // the view's, when the order was given
  HistoryId history;             // likewise
  bool early = false;            // it waits for the core, which is being prepared
};

struct State {
  static inline const char* name = "job";
  JobActorOptions options;
  caf::actor trainer, checkpoints;
  std::optional<job::JobCore> core;
  JobLedger ledger;
  HistoryPolicy keeping;            // of the ledger's history
  std::uint64_t element_count = 0;  // of a gradient, its tail included
  // Weights and two moments.
  std::uint64_t state_bytes() const {
    return (element_count - model::kTailElements) * 3 * sizeof(float);
  }
  bool speculates = false;         // the trainer makes use of parts of a total
  std::optional<FormGroup> group;  // of this view's devices: formed, or being formed
  JobPhase phase = JobPhase::preparing;
  std::string reason;
  bool device_lost = false;  // that is the reason
  bool finished = false;     // every member has committed the last step
  bool evaluating = false;
  std::optional<std::pair<TrainerReady, Time>> held;  // ready, and waits until then for BeginJob
  // Checkpoints whose state is being read, by step: what was fed up to there.
  std::map<std::uint64_t, WriteCheckpoint> checkpoints_wanted;
  std::uint32_t checkpoints_writing = 0;
  int left_out = 0;  // 2: the last checkpoint that was due; 1: the one before; told when it began
  std::optional<Error> checkpoint_failed;       // why this node's last one is not on its disk
  std::optional<Time> result_due;               // to be written again: the disk did not take it
  DiskWatch disk;                               // what the checkpoint writer has yet to do
  bool disk_told = false;                       // that it is late with the first of these
  std::optional<std::uint64_t> restore_failed;  // step that is not here; what is, is looked for
  std::vector<DamagedCheckpoint> damaged;       // kept aside on this node's disk
  std::uint64_t damaged_found = 0;
  std::optional<TrainerReady> awaits_search;  // ready before the newest checkpoint is found
  std::vector<Order> orders;
  Time spares_told{};
  Time heard{};  // when another node last said anything of the job
  Time ticked{};
  std::optional<Error> leaves_for;  // why it asks to be left out of the next view
  std::string told;                 // what the supervisor heard last
  std::uint64_t checkpoint_asked = 0, checkpoint_done = 0;
  std::uint64_t followed_to = 0;              // steps that were applied while learning
  std::optional<std::uint64_t> result_token;  // of the core's ReadState that the disk is to answer
  std::optional<AnswerOnce<bool>> left;       // somebody waits for this node to leave the job
  std::vector<CoreInput> early_peers;         // told before the core exists
  std::map<NodeId, std::string> refused;      // no members, and why
  std::set<std::string> warned_of;            // what is said once: "proof", "loss"
};
using Self = caf::stateful_actor<State>;

inline Time now(Self* self) {
  return self->state.options.clock->now();
}

void carry_out(Self* self, job::Actions& actions);

// Feeds the core with one event and carries out what it says. `event`: a member of the core that
// takes `arguments` between the time and the actions, or a function likewise.
template <class Event, class... Arguments>
void feed(Self* self, Event event, Arguments&&... arguments) {
  if (!self->state.core) return;
  job::Actions actions;
  std::invoke(event, *self->state.core, now(self), std::forward<Arguments>(arguments)..., actions);
  carry_out(self, actions);
}

// Has the trainer's state, which is that after `step`, written to this node's disk. `running` is
// what was fed up to there.
void want_checkpoint(Self* self, std::uint64_t step, const collective::DataFingerprint& running,
                     const Digest& digest);

// The same for a step after which one is due, unless too many are on their way to the disk.
void due_checkpoint(Self* self, std::uint64_t step, const Digest& digest);

// The devices' group ends, whatever it is doing.
void give_up_group(Self* self, const std::string& reason);

// Orders to the checkpoint writer, which is watched from then on.
void find_checkpoint(Self* self);
void find_one_that_counts(Self* self);
void write_checkpoint(Self* self, WriteCheckpoint order);
void on_read(Self* self, const CheckpointRead& read);
void read_checkpoint(Self* self, std::uint64_t step, std::uint64_t token, bool restores);
// Has those that this node's part of the job made since set aside: it gives way to another part.
void give_up_checkpoints(Self* self, const job::GiveUpCheckpoints& order);
// What it found, and what was lost: named to people, and told to the core.
void on_found(Self* self, const CheckpointsFound& found);
void on_restored(Self* self, const CheckpointRead& read);
// Says that the disk hangs, if it does; ends this node's part where the members wait for it.
void watch_disk(Self* self);
// The job goes on from step 0 where this node has kept damaged checkpoints.
void note_anew(Self* self, const view::View& view);
// A checkpoint is on this node's disk, or could not be written.
void on_checkpoint(Self* self, const CheckpointWritten& written);
// A member's checkpoint for its witnesses, and a witness's copy of one.
void read_saved(Self* self, const job::ReadSaved& order);
void give_saved(Self* self, const CheckpointRead& read);
void keep_copy(Self* self, const job::KeepCopy& order);
void tell_what_was_found(Self* self);
// Every member has committed the last step; the validation loss is known; and once all that the
// job's end wants is done, this node's part ends.
void on_finished(Self* self);
// The sums and the state are no longer needed; the core stays and answers late members.
void end(Self* self);
void on_evaluated(Self* self, const Evaluated& evaluated);
void maybe_end(Self* self);
// The disk has not taken the job's result: it stays in memory, and is written again until the disk
// does, or another node has it.
void keep_in_memory(Self* self);
void try_result_again(Self* self);
std::string unsaved_text(const State& state);

// Makes the core and starts it; held jobs wait for `release`.
void begin(Self* self, const TrainerReady& ready);
// Forms the job once its submitter has answered its user; or when another member has begun, or the
// submitter seems to be gone.
void release(Self* self);
std::vector<NodeId> other_nodes(const ClusterSnapshot& cluster);

// The text as people read it: see in_words.
std::string said(Self* self, const std::string& text);
// In the job's history alone.
void on_event(Self* self, const std::string& text);
// A line in the log and in the job's events; the same as a warning.
void note(Self* self, const std::string& text);
void warn(Self* self, const std::string& text);

// The ledger's entry of a step that was applied; says when its figures are no numbers.
void note_figures(Self* self, const Applied& applied);

void set_phase(Self* self, JobPhase phase, const std::string& reason = {});

// What an earlier life of this node has left of the job's history.
void restore_history(Self* self);
// Has it written, or another member asked for what is missing of it, if it is time; `ends`: nothing
// more is to come.
void keep_history(Self* self, bool ends = false);
void on_history_written(Self* self, const HistoryWritten& written);
// For a member that lacks it, and of one.
void tell_history(Self* self, const TellHistory& wanted);
void take_history(Self* self, const HistoryTold& told);
// The steps after this one are undone.
void on_base(Self* self, const job::ViewInstalled& installed);

// Tells the supervisor, if anything that others should know has changed.
void tell_supervisor(Self* self);

// Ends this node's part in the job and tells the others, so that they do not wait for it.
void fail(Self* self, const Error& error);

// The node leaves: hands over, then lets go of `leave.left`.
void on_leave(Self* self, const Leave& leave);
void save_state(Self* self, std::uint64_t step);
void on_left(Self* self);
// Ends once nothing of the job is written to this node's disk any more: it may be removed next.
void shut_down(Self* self);
void leave_full_disk(Self* self, const Error& error);
void stay_after_all(Self* self);  // as the disk takes checkpoints again

// The state for a learner: from the trainer, or, once the job is over, from its last checkpoint.
void read_state(Self* self, const job::ReadState& order);
void give_result(Self* self, const CheckpointRead& read);

// A person orders: stop, resume, recover. Answered once it is done, or after a timeout.
void take_order(Self* self, const Command& command);
// The job has lost its quorum, and that it goes on without it is audited.
void go_on_alone(Self* self);
void watch_orders(Self* self);
void on_stopped(Self* self, const job::Stopped& stopped);

// Who takes no part; an event of the job.
void on_refused(Self* self, const Refusal& refused);
// What was fed is not what this node's data gives; told once.
void on_proof_differs(Self* self, std::uint64_t steps);

// Answers `job.show`, `job.log` and `job.progress`.
void on_command(Self* self, const Command& command);

}  // namespace gpunode::jobs::actor
