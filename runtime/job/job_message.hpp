// Every message between the cores of one job on different nodes. All may be lost, repeated and
// late; each carries the view that its sender has installed, and the receiver routes by it.
//
//   sender's view   | receiver does
//   older           | answers VIEW, ignores the rest (a result of the same history, and a question for
//                   | one, is as good as before)
//   any             | notes a JOIN and a witness's offer; a state that has a digest for a name, and a
//                   | question for it
//   the same        | handles it
//   newer           | asks for VIEW, keeps parts of steps until it has it, ignores the rest
//   another history | both: which of the two views goes before is for who knows both
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/collective/exchange_message.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::job {

// A part of the all-reduce of one step.
struct StepMessage {
  std::uint64_t step = 0;
  Digest plan;  // digest of the sender's slice plan for this step
  collective::ExchangeMessage message;
};
struct Vote {
  view::VoteMessage message;
};
// A hint that a view change is needed, and whom the sender cannot reach.
struct FreezeHint {
  std::string reason;
  std::vector<NodeId> suspects;
};
// The last view of it, and those before it that prove it to the receiver.
struct ViewNotice {
  view::ViewChain chain;
};
struct ViewAsk {
  view::ViewName proven;  // the newest one of which the sender has the proof
  Digest digest{};        // of it: two of one name may have been decided (double_vote.hpp)
};
// Asks to come in, as a learner at first; repeated until the sender is a member that holds the state.
struct JoinAsk {
  Digest fingerprint;
  bool outside = true;               // no member of the view that it knows; false: still syncing
  std::uint64_t received_bytes = 0;  // of state and results, so far
  bool ready = false;                // up to date but for what the view change itself brings
  std::uint64_t step = 0;            // its state is the one after this step
  std::vector<NodeId> heard;         // members that it hears
  // The newest one on its disk, which may be the last that there is of the job.
  view::CheckpointName checkpoint{};
  Digest checkpoint_digest{};
};
// A spare node would vote in this job without computing; repeated until a view names it.
struct WitnessOffer {
  bool leaves = false;  // no longer: its node leaves, and is not to be asked either
};
struct JoinRefused {
  std::string reason;
};
// Life sign, and how far the sender is: an answer to NEED, and the last word after the last step.
struct StepStatus {
  std::uint64_t committed = 0;
  bool state_ready = false;        // the state at the view's base is installed
  bool finished = false;           // knows that every member is through: needs no answer
  std::uint64_t results_from = 0;  // results from this step on are kept for learners; 0: none
  Digest result{};                 // of the job's result, once finished and here; it is given
};
// State transfer, pulled by whoever lacks the state. A state has its digest for a name, which is
// good in every view: the one of a member, of a checkpoint's copy, of the job's result.
struct StateAsk {
  std::uint64_t step = 0;
  Digest digest{};  // zero: whatever the members of this view hold after that step
};
struct StateMeta {
  std::uint64_t step = 0;
  std::uint64_t size_bytes = 0;
  Digest digest;
  Digest result_digest;                          // of the sum of that step
  collective::DataFingerprint data_fingerprint;  // running sum up to that step
};
struct StateRead {
  Digest digest;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};
struct StatePart {
  Digest digest;
  std::uint64_t offset = 0;
  SharedBytes payload;
};
// The result of one committed step, for a learner that holds the state before it. A read of a step
// that is still to come waits at the member until the step is committed.
struct ResultRead {
  std::uint64_t step = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};
struct ResultPart {
  std::uint64_t step = 0;
  std::uint64_t offset = 0;
  Digest digest;                                 // of the whole result, as DONE told it
  collective::DataFingerprint data_fingerprint;  // of that step
  SharedBytes payload;
};

// A member asks the acceptors for a lease, where the members alone are no quorum
// (view::needs_lease), and tells of its newest checkpoint, of which witnesses are to hold copies.
// In other views it asks who else has the checkpoint, and nothing is granted.
struct LeaseAsk {
  Time asked{};  // by the member's clock, from which its lease counts
  view::CheckpointName checkpoint;
  Digest digest;  // of the state in it
};
// A lease is for Timings::lease_term, counted by the granter from now; only an acceptor that has
// promised nothing in this view grants one.
struct LeaseGrant {
  Time asked{};
  bool granted = false;
  bool keeps_copies = false;        // it can hold checkpoints of this job
  view::CheckpointName checkpoint;  // newest intact one on its disk
};

// To the members, from rank 0: how the others' devices find its own, to form the group of the view
// (device_link.hpp). At most kMostInvite bytes.
struct GroupInvite {
  static constexpr std::size_t kMostInvite = 1024;
  Bytes bytes;
};

using JobBody =
    std::variant<StepMessage, Vote, FreezeHint, ViewNotice, ViewAsk, JoinAsk, JoinRefused,
                 StepStatus, StateAsk, StateMeta, StateRead, StatePart, WitnessOffer, ResultRead,
                 ResultPart, LeaseAsk, LeaseGrant, GroupInvite>;

struct JobMessage {
  JobId job;
  view::ViewName view;  // the newest view that the sender knows
  Boot boot = 0;        // of the sender
  JobBody body;
};

}  // namespace gpunode::job
