// What JobCore wants done, in order, by whoever drives it: the job actor, or the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/step_times.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/job/job_message.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::job {

// Send to a peer: bulk for what carries a payload, control for the rest. May be lost.
struct Send {
  NodeId to;
  JobMessage message;
  bool bulk = false;
};
// Make these bytes the job's vote file (atomic replace, fsync), then call on_persisted(token).
// Later bytes replace earlier ones; calling only for the newest token is enough.
struct Persist {
  std::uint64_t token = 0;
  Bytes votes;
};
// A step whose sums go from device to device: when those of this member's nodes are whole they are
// told by on_sums_whole and moved; the result comes by on_carried. Where that fails, say so by
// on_group and tell the sums of the step as ever.
struct Carry {
  std::uint16_t rank = 0;
  std::uint16_t member_count = 1;
  std::uint32_t owner_rotation = 0;
  collective::SlicePlan plan;
  Duration timeout{};  // of the slowest member's computing and of the moving, from its own sums on
};
// Partial sums wanted now; this list replaces every earlier one. The state is the one after
// step - 1. Each node is to be reported once from its first element to its last, whole or range by
// range, with the number of this Compute. Sums of slices and sub-trees of the same step that the
// driver still has may be used, unless discard_kept.
struct Compute {
  std::uint64_t id = 0;
  std::uint64_t step = 0;
  std::vector<collective::TreeNode> nodes;  // may be empty
  bool discard_kept = false;
  bool alone = false;  // no other member is to get these sums
  std::optional<Carry> carry = {};
};
// Elements [first, first + count) of the result of a step, told at most once, are what they will be
// if the step is committed with `result`; others may still be written to. It may yet end otherwise,
// with another result or none: what is made of them must not show before the Apply that has the
// same vector. May be ignored.
struct SpeculativeUpdate {
  std::uint64_t step = 0;
  collective::SharedFloats result;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
// The members' devices are to form a group: all of this view, of which this node is `rank`. Rank 0
// makes the invite, and answers by on_invite before it joins; the others have it here. Then
// on_group.
struct OpenGroup {
  view::ViewName view;
  std::uint16_t rank = 0;
  std::uint16_t size = 0;
  bool between_machines = false;  // over a network, in clear
  Bytes invite;
};
// The group is over, at once, whatever it is doing. Where `step` is under way and its sums were not
// told, as they were carried or are to be, they are told now.
struct CloseGroup {
  std::string reason;
  std::uint64_t step = 0;  // 0: none
};
// The step is committed: update the state with this sum, then call on_applied.
struct Apply {
  std::uint64_t step = 0;
  collective::SharedFloats result;
  collective::DataFingerprint data_fingerprint;  // of this step
  bool learning = false;  // the members committed it; this node only follows, and tells nobody
};
// Told once a step, right after its Apply; `running` is the sum over steps 1..step. A step that a
// learner received within a state, or followed while learning, is not told.
struct Committed {
  std::uint64_t step = 0;
  collective::DataFingerprint data_fingerprint;
  collective::DataFingerprint running;
  std::vector<NodeId> computed_by;  // by slice
  // The plan by rank, and what all members told of it; empty when this node learnt the result on
  // entering the view.
  collective::SlicePlan plan;
  std::vector<collective::StepTimes> times;  // by rank
  std::uint32_t confirm_us = 0;              // from held to `at`, on this member
  Time at{};
};
// A learner needs this state: give an immutable copy of the state after `step` to on_state_read.
// Asked for only between on_applied(step) and Apply of step + 1.
struct ReadState {
  std::uint64_t token = 0;
  std::uint64_t step = 0;
};
// Replace the state by these verified bytes, then call on_state_installed.
struct InstallState {
  std::uint64_t step = 0;
  SharedBytes state;
};
enum class Role : std::uint8_t { member, learner, outsider };
// Every member lost the state: load the checkpoint of this step (step 0: the initial state of the
// manifest) in place of the state, then call on_state_installed.
struct RestoreState {
  std::uint64_t step = 0;
};
// A view was installed. Work for steps below base_step + 1 is void.
struct ViewInstalled {
  view::View view;
  Role role = Role::outsider;
  Time wanted_since{};  // when this node first wanted, or heard of, the change
};
struct Paused {
  std::string reason;  // what is waited for
};
// Make the state after `step` a durable checkpoint now, then call set_checkpoint: this node leaves
// and is the last to hold it. Asked for only between on_applied(step) and Apply of step + 1.
struct SaveState {
  std::uint64_t step = 0;
};
// A member's witnesses are to hold a copy of its newest checkpoint: give the bytes of the one of
// this step, as a state, to on_saved_read; none where it cannot be read.
struct ReadSaved {
  std::uint64_t token = 0;
  std::uint64_t step = 0;
};
// A durable checkpoint on this node's disk; step 0 means none.
struct Checkpoint {
  std::uint64_t step = 0;
  Digest state_digest;                  // as given to on_applied
  collective::DataFingerprint running;  // as told by Committed
  HistoryId history;                    // that it belongs to
  view::CheckpointName name() const { return {history, step}; }
};
// This node is a witness: make these verified bytes of the members a checkpoint of its own, and
// call set_checkpoint once it is durable.
struct KeepCopy {
  Checkpoint checkpoint;
  SharedBytes state;
};
// Told once after request_leave: nothing of the job is missed when this node ends now.
struct Left {};
// Every member is known to have committed the last step. Told once; keep feeding the core, so
// that a late member gets its answers.
struct Finished {};
// The job is stopped and the state after `step` is in place: write the final checkpoint. Told once
// a stopped view.
struct Stopped {
  std::uint64_t step = 0;
  Digest state;                         // of the state after it
  collective::DataFingerprint running;  // over steps 1..step
};
// No quorum has answered for a while, and the job is to go on nevertheless: have it audited, then
// call go_on_alone. Said again as long as it stays so.
struct LostQuorum {};
// Ask this spare node to stand as a witness of the job. Lost or refused, it is asked for again.
struct Recruit {
  NodeId node;
};
// A line for people: job log and status.
struct Report {
  std::string text;
  Duration lasted{};   // of a stall that is over, else zero
  bool warns = false;  // somebody should look at this node
};
// This node's part of the job is to give way to another: what the disk holds of this history after
// that step is of no use to the job any more, and is to bear its name no longer, after a restart
// neither. Answered with on_given_up; until then nothing of the job is saved (gives_way).
struct GiveUpCheckpoints {
  HistoryId history;
  std::uint64_t after = 0;  // step
};
// What people have to find again later: to be told as a warning, and audited.
struct Incident {
  std::string event;  // in the audit log: voted_twice, part_yielded
  NodeId node;        // who has voted twice; who formed the view that this part yields to
  std::string text;
};
using Action = std::variant<Send, Persist, Compute, SpeculativeUpdate, Apply, Committed, ReadState,
                            InstallState, RestoreState, ViewInstalled, Paused, LostQuorum, Stopped,
                            Recruit, SaveState, ReadSaved, KeepCopy, Left, Finished, Report,
                            OpenGroup, CloseGroup, GiveUpCheckpoints, Incident>;
using Actions = std::vector<Action>;

// The driver's answer to Compute, whole or range by range.
// Elements [first, first + count) of a partial sum are final; the others of `sum` may still be
// written to.
struct PartialRange {
  std::uint64_t compute_id = 0;  // of the Compute that asked
  std::uint64_t step = 0;
  collective::TreeNode node;
  collective::SharedFloats sum;
  collective::DataFingerprint data_fingerprint;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  collective::ComputeTimes times;  // of this node for the step so far
};

// The whole result of a step came from the other members' devices.
struct Carried {
  std::uint64_t compute_id = 0;  // of the Compute that asked
  std::uint64_t step = 0;
  collective::SharedFloats result;
  collective::DataFingerprint data_fingerprint;  // of the whole step
};

}  // namespace gpunode::job
