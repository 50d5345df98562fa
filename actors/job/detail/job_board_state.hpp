// What the files of the job board share: its state, and the functions that they call of each other.
// Included by job_board_actor.cpp (jobs come and go), job_board_disk.cpp (what jobs of earlier
// lives of this node have left on its disk), job_board_calls.cpp (what nodes ask of each other),
// job_board_commands.cpp (what people ask), job_board_names.cpp (which jobs are known and told, and
// which one is meant), job_board_queue.cpp (jobs that wait), job_board_removal.cpp (the order to
// remove one), job_board_removed.cpp (jobs that are gone), job_board_checkpoints.cpp (checkpoints go)
// and job_board_rights.cpp (whose orders count) alone. What others tell is decoded once a scan, and handed on.
#pragma once

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "actors/job/detail/join_attempts.hpp"
#include "actors/job/job_actor.hpp"
#include "actors/job/job_board_actor.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_names.hpp"
#include "actors/job/job_rights.hpp"
#include "actors/job/last_hints.hpp"
#include "actors/job/slow_work.hpp"
#include "actors/job/start_vote.hpp"
#include "actors/job/told_ends.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::jobs::board {

inline constexpr JobRecord kVotes{"votes", {{'V', 'O', 'T', 'E'}, 1}};
inline constexpr JobRecord kWitness{"witness", {{'J', 'O', 'B', 'W'}, 1}};
inline constexpr JobRecord kHistory{"history", {{'J', 'O', 'B', 'Y'}, 1}};
inline constexpr JobRecord kOutcome{"outcome", {{'J', 'O', 'B', 'O'}, 1}};
inline constexpr JobRecord kWaiting{"waiting", {{'J', 'O', 'B', 'Q'}, 1}};
inline constexpr JobRecord kRemoved{"removed", {{'J', 'O', 'B', 'R'}, 1}};

// The directory's key of a node that leaves.
inline constexpr const char* kLeaving = "leaving";

// A job that waits in the queue.
struct Waiting {
  static constexpr Duration kFirstPause = std::chrono::seconds(5);
  static constexpr Duration kLongestPause = std::chrono::minutes(5);

  std::vector<NodeId> holders;
  StartVote vote;
  // Of who looks whether it can start, which reads all of its data: what is under way, for how long
  // nothing else is, and when it is looked again.
  bool under_way = false;
  Time alone_until{};
  std::string situation;
  Duration pause{};
  Time not_before{};
  bool for_memory = false;
};

struct Job {
  job::JobSpec spec;
  // Null for one that ended in an earlier life of this node, unless its result is here.
  caf::actor actor;
  JobProgress progress;
  std::shared_ptr<telemetry::SpanRing> spans;
  bool witness = false;   // this node only votes in it
  bool promoted = false;  // its actor ends, to start again as one that computes
  std::string outcome;    // the last report of one that ended, JSON
  std::optional<Waiting> waiting;
};

// What is left of a job that is removed: by order, or as it has left the queue to start.
struct Gone {
  std::string name;
  bool started = false;
  std::int64_t at = 0;          // by the clock of this node, in seconds since 1970
  Bytes order = {};             // by which it is; empty where it has started
  std::set<NodeId> parts = {};  // who took part in it, and may say that it goes on
};

struct State {
  static inline const char* name = "job board";
  JobBoardOptions options;
  std::map<JobId, Job> jobs;
  std::uint64_t lives = 0;        // of jobs' actors in this process
  bool leaving = false;           // takes up no more jobs
  std::map<JobId, Gone> removed;  // for good
  std::set<JobId> overruled;      // others say they are removed, and they were being trained here
  // Of jobs that some say are removed and others train the step at which that was first heard, by who
  // trains them.
  std::map<std::pair<JobId, NodeId>, std::uint64_t> contested;
  // Of jobs whose actor is to end first: what is done then.
  std::map<JobId, std::function<void()>> ending;
  JoinAttempts attempts;  // at jobs of others
  LastHints last_hints;   // of them
  ToldEnds told_ends;
  std::shared_ptr<std::mutex> history_turn = std::make_shared<std::mutex>();  // to write one
  std::shared_ptr<SlowWork> slow_work;
};
using Self = caf::stateful_actor<State>;

inline Time now(Self* self) {
  return self->state.options.environment->options().clock->now();
}

// What a node brings into a job: a candidate computes, a joiner asks to be let in, a witness votes,
// a holder of the result of one that is finished gives it to who lacks it.
enum class Part : std::uint8_t { candidate, joiner, witness, holder };

// What began elsewhere and goes on on the job board.
struct Request {
  std::function<void()> work;
};
// Makes this node answer the calls of others.
void publish_all(Self* self);
void publish_queue(Self* self);
// Answers calls of this name on the job board; at once; or with nothing but that it is done.
void publish(Self* self, const char* name, CallHandler handler);
void publish(Self* self, const char* name, Result<SharedBytes> (*answer)(Self*, ByteView));
void publish(Self* self, const char* name,
             Result<SharedBytes> (*answer)(Self*, const NodeId& from, ByteView));
void publish(Self* self, const char* name, Result<void> (*work)(Self*, ByteView));
void publish(Self* self, const char* name,
             Result<void> (*work)(Self*, const NodeId& from, ByteView));

// Whether its owner wants the job, and may have one. Fails with permission_denied.
Result<void> may_begin(Self* self, const job::JobSpec& spec);
// Whether this node may compute and vote. Fails with permission_denied.
Result<void> takes_part(Self* self);
// Whether the command about a job that is here has its order with it, of one that may give it. Fails
// with permission_denied.
Result<void> may_carry_out(Self* self, const Command& command, const JobId& id);
// The arguments of a command about the job with this node's order in them, for whoever carries it
// out.
std::string ordered(Self* self, const Command& command, const JobId& id);
// Whether it is an order about this job by who may give one. Fails with permission_denied.
Result<void> is_ordered(Self* self, const job::JobSpec& spec, const JobId& id,
                        const view::SignedOrder& order);
// Whether the node may read what this one tells of the job. Fails with permission_denied.
Result<void> may_look(Self* self, const Job& job, const NodeId& by);
// Its owner, those it starts on, and who computes or votes in it as far as is known here.
bool has_part(const Job& job, const NodeId& node);
// All that take part in the job, as far as this node knows.
std::set<NodeId> parts_of(const Job& job);
// Whether the job waits here, and that node is one of those that hold it.
bool is_holder(const Job& job, const NodeId& node);

// Writes the manifest, then starts: after a crash between the two the job is taken up from disk.
Result<void> create_job(Self* self, ByteView manifest, Part part);

// Starts the job's actor. `result`: of a holder.
Result<void> start_job(Self* self, const JobId& id, job::JobSpec spec, Part part,
                       const job::Checkpoint& result = {});

// Takes up the jobs on this node's disk, and shows those that are over.
void load_jobs(Self* self);
// What other nodes see of the job in the directory.
void publish_hint(Self* self, const Job& job);
// Of one that is over, `since` says how old that is, in microseconds since 1970; nothing: this node
// says no more of the job.
void tell_hint(Self* self, const JobId& id, const std::optional<JobHint>& hint, std::int64_t since);

// Becomes a witness of the job: of a small one as a node that could compute it too, if it is fit.
Result<void> stand_by(Self* self, ByteView manifest);

// Slow work that a node has asked for, on one of a few threads, so that no mailbox waits for disk or
// device; what it leads to it may send to `board` as a Request. Fails as SlowWork::add does.
Result<void> on_own_thread(Self* self, const NodeId& by,
                           std::function<void(const caf::actor& board)> work);
// The way to ask for it from any thread, while the node runs.
std::function<Result<void>(SlowWork::Work)> slow_work_of(Self* self, const NodeId& by);
// The same for what this node itself wants.
Result<void> on_own_thread(Self* self, std::function<void(const caf::actor& board)> work);
// Whether it takes another job of this submitter. Fails with resource_exhausted.
Result<void> has_room_for(Self* self, const NodeId& submitter);

storage::DurableRecord record(Self* self, const JobId& id, const JobRecord& which);

// Null: no such job is, or was, here.
inline Job* job_at(Self* self, const JobId& id) {
  const auto found = self->state.jobs.find(id);
  return found == self->state.jobs.end() ? nullptr : &found->second;
}
// Null: nor does it run here.
inline caf::actor actor_at(Self* self, const JobId& id) {
  const Job* job = job_at(self, id);
  return job ? job->actor : nullptr;
}

// All jobs that are known here, from this node's disk and from what others tell.
JobNames names_of(Self* self);
// `jobs`: newest first.
void list_jobs(Self* self, const Command& command);
// Whether steps are made of it here, or might be once it has members.
bool is_at_work(const Job& job);
// Whether it would lose steps that are being made, rather than wait for members.
bool is_under_way(const Job& job);

// Carries out a person's command about one job; `forward`: by a node that has a part in it, if this
// one has none. `by`: the node at which the person sits.
void job_command(Self* self, const Command& command, const JobId& id, const NodeId& by,
                 bool forward);

// Has another node carry out the command about the job, and answer it.
void forward(Self* self, const Command& command, const NodeId& to, const JobId& id);

// `job rm`: on every node that answers; the others remove it when they are back.
void remove_job(Self* self, const Command& command);
// Removes the job and its checkpoints from this node, whatever it does with them, by an order of who
// may give it, or as it has started from the queue (no order). Answers when they are gone.
void remove_here(Self* self, const JobId& id, const std::optional<view::SignedOrder>& order,
                 const CallReply& reply);
// Another node says that the job is removed: so it is here, if it shows by whose order, unless steps
// of it are made here, or it is among those that others `made`.
void on_removed_elsewhere(Self* self, const JobId& id, const HeardHint& heard,
                          const std::set<JobId>& made);
// The reason in the hint of one that left the queue as it has started.
inline constexpr const char* kStarted = "it has started";
// Whether what is heard of a removal shows that it was ordered by one that may have.
bool is_proven(Self* self, const JobId& id, const HeardHint& heard);
// Takes back what this node says of jobs that it has removed, of which others make steps still.
void look_after_removed(Self* self, const ClusterSnapshot& cluster,
                        const std::vector<HeardHint>& hints);
// Has this node remember for those that are away that a job was removed in which it has no part.
Result<void> remember_for_others(Self* self, const JobId& id, const std::string& name,
                                 const view::SignedOrder& order, std::set<NodeId> parts);
// Whether the node may know if steps are made of the job: anybody, where this node knows nothing of
// who takes part in it.
bool may_tell(Self* self, const JobId& id, const NodeId& by);
// Whether steps are made of a job in this phase.
bool is_made(JobPhase phase);
// Of which of these jobs live nodes other than this one make steps, as those say that may know.
std::set<JobId> made_elsewhere(Self* self, const ClusterSnapshot& cluster,
                               const std::vector<HeardHint>& hints);
// Jobs that have left the queue, by the id that they had there: a holder says so, or this node has
// them itself.
std::set<JobId> begun_jobs(Self* self, const std::vector<HeardHint>& hints);
// Goes on with what a crash has interrupted; a job that was removed long ago is forgotten.
void take_removed(Self* self, const JobId& id, ByteView record);
// Has the holders of a waiting job agree that it never starts. Fails with: wrong_state (it starts),
// unavailable (too few of them answer).
void take_out(Self* self, const view::SignedOrder& order, std::function<void(Result<void>)> then);
// The job has started from the queue.
void leave_queue(Self* self, const JobId& id);
// Looks whether jobs that wait can start.
void look_after_queue(Self* self, const ClusterSnapshot& cluster,
                      const std::vector<HeardHint>& hints);
// Takes up a job that waited when this node ended. Fails with corrupted.
Result<void> load_waiting(Self* self, const JobId& id, job::JobSpec spec, ByteView record);
// Whether the node is up, and has not said that it leaves.
bool stays(const ClusterSnapshot& cluster, const NodeId& node);

// Ends the job's actor, if there is one, and goes on then.
void end_first(Self* self, const JobId& id, std::function<void()> then);

// `checkpoint rm`, of a job that is over here.
void remove_checkpoints(Self* self, const Command& command);

// Writes to the audit log what has been done; that it cannot be written is the log's to say.
void note_in_audit(Self* self, const std::string& event,
                   std::vector<std::pair<std::string, std::string>> fields);
// Writes to the audit log what is done to a job, then calls `done`, on the log's thread.
void audit_job(Self* self, const JobId& id, const std::string& event,
               std::vector<std::pair<std::string, std::string>> more,
               std::function<void(Result<void>)> done);
// An order is in the audit log before it is carried out; by this, afterwards, that it was refused.
Command with_outcome(Self* self, const Command& command, const JobId& id, const NodeId& by);

// The directory's key of a node's hint about a job.
std::string hint_key(const JobId& id);

// Has the job's members show that this node takes no part, and why.
void tell_refused(Self* self, const JobId& id, const std::string& reason);
// A member's core looks for a witness; whether it has come shows when it offers itself.
void recruit(Self* self, const RecruitWitness& wanted);

void on_command(Self* self, const Command& command);

}  // namespace gpunode::jobs::board
