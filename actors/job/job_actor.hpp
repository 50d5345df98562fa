// The job actor: one node's part in one job; the job board (job_board_actor.hpp) keeps one for each
// job of the node. It feeds runtime/job's JobCore with messages, time and the trainer's answers,
// and carries out what the core decides: who is a member, which sums to compute, whom to send what,
// when a step is committed. All rules are in the core, which the simulator drives too; this file
// only moves things between mailboxes, disk and link.
//
// View and exchange are one state machine in one actor, not two: a step's last DONE and a promise
// may arrive together, and which came first decides whether the step is committed.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "actors/cluster_state.hpp"
#include "actors/job/job_phase.hpp"
#include "actors/messages.hpp"
#include "kernels/model/model.hpp"
#include "runtime/collective/sum_program.hpp"
#include "runtime/collective/wire_form.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/telemetry/span_ring.hpp"
#include "runtime/transport/link.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::jobs {

// Since when something is known, by the wall clock, and why it may be otherwise by now; see KnownStep.
struct AsOf {
  double at = 0;  // seconds since 1970; 0: not known
  std::string how;
};

// Told to the supervisor at every change that others should know.
struct JobProgress {
  JobId id;
  JobPhase phase = JobPhase::preparing;
  std::string reason;
  std::uint64_t step = 0, total_steps = 0, view_id = 0;
  std::vector<NodeId> members;
  std::optional<double> loss;  // none: this node has not made a step of the job itself
  AsOf as_of;                  // of step and loss
  double finished_at = 0;      // since 1970; 0: it is not
  double tokens_per_second = 0;
  std::uint64_t to_device_bytes = 0, to_host_bytes = 0;  // copied in this node's last step
  bool ended = false;
  std::uint64_t damaged_checkpoints = 0;  // found here in this life of the job's actor
  bool unsaved = false;                   // it is done, and its result is in memory alone
  bool lacks_result = false;              // it is finished, and its result is on no disk
  bool has_result = false;                // it is finished, and its result is on this disk
  bool device_lost = false;               // that is why it failed here
};

// From the supervisor: so many steps were fed something else than what the data gives now.
struct ProofDiffers {
  std::uint64_t steps = 0;
};

// To the supervisor: ask this spare node to stand as a witness of the job.
struct RecruitWitness {
  JobId id;
  NodeId node;
  std::map<NodeId, std::string> refused;  // who takes no part, and why
};

// To the supervisor: the job's members have lost their quorum and it is to go on nevertheless. Has
// to be audited first.
struct LostQuorum {
  JobId id;
};
// To the supervisor: to be audited.
struct JobIncident {
  JobId id;
  std::string event;
  NodeId node;
};
// The supervisor's answer, once it is audited.
struct GoOnAlone {};

// To the supervisor: ask this member for the job's history, which comes as HistoryTold.
struct AskHistory {
  JobId id;
  NodeId of;
};
struct HistoryTold {
  Result<SharedBytes> history;
};
// From the supervisor, for another member.
struct TellHistory {
  CallReply reply;
};
// The history that was to be stored is on this node's disk, or is not.
struct HistoryWritten {
  Result<void> stored;
};

struct JobActorOptions {
  JobId id;
  job::JobSpec spec;
  // What the job's core is to know of this node: self, votes of an earlier life, whether it only
  // votes (no data, no trainer, no checkpoints), and so on. `checkpoint` is the newest durable one
  // on this node's disk; `has_result`: an earlier life of this node was through with the job, and
  // that is its result, which is given to who lacks it, and nothing else is done. What follows from
  // the spec and from the trainer is filled in later. `places`: for the link, which asks it.
  job::JobCore::Options core;
  // Whether this node asks to be taken in, as it is no candidate of the job or has lost its memory.
  bool join = false;
  // Whether the job is new here and forms when its submitter says so.
  bool held = false;
  std::string remark;  // an event of the job's start here; empty: none
  // Whether the checkpoint writer is to find core.checkpoint, reading every byte, before the job
  // begins here.
  bool finds_checkpoint = false;
  std::function<Result<void>(ByteView)> store_votes;  // durable when it returns
  Bytes history;  // what an earlier life of this node has kept; see JobHistory
  // Writes it without holding anybody up; HistoryWritten tells `job` how it went.
  std::function<void(caf::actor job, Bytes history)> store_history;
  std::function<Result<void>(const NodeId&, transport::Lane, transport::Message)> send;
  // Spawns the trainer, told who its job is.
  std::function<caf::actor(caf::actor job)> spawn_trainer;
  // Spawns the checkpoint writer likewise.
  std::function<caf::actor(caf::actor job)> spawn_checkpoints;
  std::shared_ptr<telemetry::SpanRing> spans;  // what was done when, for `job trace`; may be null
  const ClusterState* cluster = nullptr;
  const Clock* clock = nullptr;
  caf::actor supervisor;
};

// Whether a command changes the job, and is no mere question: stop, resume, recover.
bool is_order(const std::string& command);
// The step from which a person wants a job to go on, whatever was reported durable; none: the
// command is another one.
std::optional<std::uint64_t> resumed_from(const std::string& command,
                                          const nlohmann::json& arguments);
// The order in the arguments of such a command, under its giver's signature; nothing: there is none.
std::optional<view::SignedOrder> order_in(const nlohmann::json& arguments);

// Stands where a trainer or a checkpoint writer would, at a job's witness and where the job is
// over: is ready at once, and does nothing. `element_count`: of a gradient.
caf::actor spawn_idle(caf::actor_system& system, caf::actor job,
                      std::uint64_t element_count = model::kTailElements);

caf::actor spawn_job(caf::actor_system& system, JobActorOptions options);

}  // namespace gpunode::jobs
