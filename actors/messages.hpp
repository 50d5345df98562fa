// Every message between actors: read this page first. Messages are plain structs that stay inside
// one process; large things travel as shared, immutable buffers. Names say who tells whom what.
//
//   link thread --NetMessage-->              cluster, calls, job board, admission; on bulk: job
//   link thread --LinkChanged-->             cluster
//   cluster     --PeerChanged, LinkChanged--> calls, admission, job board -> each job
//   job         --job::Compute, job::SpeculativeUpdate, ApplyTotal, ReadState, job::InstallState,
//                 Evaluate--> trainer (those of the core's actions that are its to carry out)
//   trainer     --TrainerReady, job::PartialRange, Applied, StateRead, ..., Failed--> job
//   job         --FindCheckpoint, SetAsideCheckpoints, WriteCheckpoint, ReadCheckpoint--> checkpoint
//   checkpoint  --CheckpointsFound, CheckpointWritten, CheckpointRead--> job
//   job board   --AuditNote--> admission (owner of the audit log)
//   anybody     --Command--> admission, job board, serving (a person's command, answered with JSON)
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/answer_once.hpp"
#include "actors/compute/group_slot.hpp"
#include "actors/own_message.hpp"
#include "kernels/ops/device_group.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/peer.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/job/job_actions.hpp"

namespace gpunode::transport {
struct Message;
enum class Lane : std::uint8_t;
}  // namespace gpunode::transport

namespace gpunode {

// --- from the link and the detector ---
struct NetMessage {
  NodeId from;
  transport::Lane lane;
  std::shared_ptr<const transport::Message> message;
};
struct LinkChanged {
  NodeId peer;
  transport::Lane lane;
  LinkState state;
};
struct PeerChanged {
  NodeId peer;
  Boot boot = 0;
  PeerHealth health = PeerHealth::alive;
  std::string reason;
};
struct Tick {};
// The actor ends.
struct Shutdown {};

// The submitter has told its user: the job may form. Without it the job waits a few seconds.
struct BeginJob {};
// Hand over what the others need of this node, or say goodbye to them, at the latest within
// `timeout`; `left` says so, with whether it was taken, or its last copy goes when all is done.
struct Leave {
  Duration timeout{};
  std::optional<AnswerOnce<bool>> left;
};

// --- a person's command; the answer is one JSON text, told exactly once, from any thread ---
struct Command {
  std::string name;       // "nodes", "train", ...
  std::string arguments;  // a JSON object
  std::function<void(std::string)> answer;
  // Whether somebody waits for it still, as far as is known; any thread, quick. Empty: that is not known.
  std::function<bool()> is_awaited = {};
};

// --- who did what, for the audit log; done: once it is on disk ---
struct AuditNote {
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
  std::function<void(Result<void>)> done;  // on the owner's thread; must be quick
};

// --- calls between nodes ---
struct CallRequest {
  std::optional<NodeId> to;  // absent: a live node that offers `name`, which answers soonest
  std::string name;
  SharedBytes request;
  Duration timeout{};  // shorter, with not_found, where the nodes said to offer it do not
  std::function<void(Result<SharedBytes>)> done;  // on any thread; must be quick
  // Its handler may run again, on another node, where the one that has it is lost.
  bool may_repeat = false;
  // Calls with one of these go to one replica where it is not much slower than others: it knows what
  // they begin with.
  std::optional<std::uint64_t> affinity = {};
  // A handler that says resource_exhausted or unavailable has not begun: another replica is asked, while
  // there is one.
  bool elsewhere_if_refused = false;
  // Shorter than `timeout`: so long a node that offers the name is waited for. Zero: for all of it.
  Duration placed_within = {};
};
// What a published name does with a request; answers once, from any thread. Called on the thread
// that brings the request, and must be quick, unless it is published as pooled.
class CallReply {
 public:
  CallReply() = default;
  template <std::invocable<Result<SharedBytes>> Tell>
  requires(!std::same_as<std::remove_cvref_t<Tell>, CallReply>)
      CallReply(Tell tell, Time deadline = Time::max())
      : tell_(std::move(tell)), deadline_(deadline) {}

  void operator()(Result<SharedBytes> result) const { tell_(std::move(result)); }
  // By this node's clock, when the caller gives up: less is left of a call that was elsewhere before.
  Time deadline() const { return deadline_; }

 private:
  std::function<void(Result<SharedBytes>)> tell_;
  Time deadline_ = Time::max();
};
using CallHandler = std::function<void(const NodeId& from, SharedBytes request, CallReply reply)>;
struct Publish {
  std::string name;
  CallHandler handler;  // null: withdraw
  bool listed = true;   // in the directory, so that other nodes find it by name
  bool pooled = false;  // may take its time: runs on one of the node's handler threads
  bool reserve =
      false;  // listed as one that is called where no other node offers the name, or all are full
};

// --- the directory's writer ---
struct SetEntry {
  std::string key;
  std::optional<Bytes> value;  // absent: erase
};

// --- between a job and its trainer ---
struct TrainerReady {
  std::uint64_t element_count = 0;
  Digest fingerprint;
  std::string fingerprint_text;
  Digest initial_state;
  std::uint64_t tokens_per_sample = 0;
  bool speculates = false;    // makes use of job::SpeculativeUpdate
  bool forms_groups = false;  // carries out job::OpenGroup
  // Of one slice, and the most a second that this node's devices have shown; 0: not known.
  double slice_flops = 0, peak_flops = 0;
};
struct TrainerFailed {
  Error error;
};
// To the job board: a device is lost to these jobs.
struct DeviceLost {
  Error error;
  std::set<std::string> jobs;  // ids
};
struct ApplyTotal {
  std::uint64_t step = 0;
  collective::SharedFloats total;
};
struct Applied {
  std::uint64_t step = 0;
  double loss = 0;
  bool skipped = false;
  Digest state;
  std::uint64_t to_device_bytes = 0, to_host_bytes = 0;  // since the step before
};
// To the trainer: a device group is to be formed, which can be given up by the slot.
struct FormGroup {
  job::OpenGroup wish;
  std::shared_ptr<compute::GroupSlot> slot;
};
// Of that group: what the other members need, made at rank 0; what came of it, `trouble` empty: it
// stands.
struct GroupInvited {
  view::ViewName view;
  Bytes invite;
};
struct GroupFormed {
  view::ViewName view;
  std::string trouble;
};
// To the trainer: the group by which steps are carried from now on.
struct UseGroup {
  std::shared_ptr<ops::DeviceGroup> group;
};
// Likewise: one that is over, to let go of last, as that may take seconds.
struct DropGroup {
  std::shared_ptr<compute::GroupSlot> slot;
};
// Of a carried step: this node's sums are on their way; or the group broke, and they are told next.
struct SumsWhole {
  std::uint64_t compute_id = 0;
  collective::ComputeTimes times;
};
struct GroupBroken {
  std::string trouble;
};
struct ReadState {
  std::uint64_t token = 0;
};
struct StateRead {
  std::uint64_t token = 0;
  std::uint64_t step = 0;
  SharedBytes state;
};
struct StateInstalled {
  std::uint64_t step = 0;
};
struct Evaluate {};
struct Evaluated {
  Result<double> loss{0.0};
  std::uint64_t samples = 0, held_out_samples = 0;  // that it is of; that there are
  std::optional<double> accuracy = {};              // where the model tells it
};

// --- between a job and its checkpoint writer ---
struct WriteCheckpoint {
  std::uint64_t step = 0;
  HistoryId history;  // to which the state belongs
  collective::DataFingerprint running;
  Digest state_digest;
  SharedBytes state;
  bool copy = false;             // of other members' checkpoint, at a witness
  view::CheckpointName durable;  // the job's newest durable one, as far as known: it is kept
  std::vector<view::CheckpointName> kept{};  // and so are these
};
// One that cannot be used, where its files are kept, and why.
struct DamagedCheckpoint {
  view::CheckpointName name;
  std::string path, reason;
};
// Find the newest checkpoint of the job that is intact, reading every byte; one of another part of
// the job, or of steps that were undone, only where there is none that this view's states came
// from.
struct FindCheckpoint {
  view::View view;
};
// Set the checkpoints of this history after that step aside, for the reason, and find what is left.
struct SetAsideCheckpoints {
  view::CheckpointName after;
  std::string reason;
};
// The answer; also said unasked, whenever one turns out to be damaged or gone and what is left has
// been looked through.
struct CheckpointsFound {
  job::Checkpoint newest;                  // intact; step 0: there is none
  std::vector<DamagedCheckpoint> lost;     // found out now
  std::vector<DamagedCheckpoint> damaged;  // all that are kept aside here
  std::optional<Error> failed;             // the disk could not be looked through
  // Of SetAsideCheckpoints: whether it was done.
  std::optional<Result<void>> gave_up;
};
// Read the job's checkpoint of this step back: every member lost the state, or a witness is to hold
// a copy (then the token says so, and comes back).
struct ReadCheckpoint {
  std::uint64_t step = 0;
  std::uint64_t token = 0;
};
struct CheckpointRead {
  std::uint64_t step = 0;
  std::uint64_t token = 0;
  Result<SharedBytes> state{SharedBytes{}};
};
struct CheckpointWritten {
  job::Checkpoint checkpoint;
  bool copy = false;
  Result<std::string> path{std::string()};
  Duration took{};
};

}  // namespace gpunode
