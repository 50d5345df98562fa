// What a node tells of itself for the next view, and what its proposer has heard of those that tell
// nothing: all that the next view follows from. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::view {

// What a promiser tells of itself. All steps and digests are frozen by the promise.
struct Standing {
  Boot boot = 0;
  bool has_memory = false;       // is a member of the current view and holds its state
  bool leaving = false;          // wants to be left out of the next view
  bool finished = false;         // has the job's result
  std::uint64_t applied = 0;     // newest committed step
  std::uint64_t held = 0;        // newest step whose whole result is here: applied or applied + 1
  Digest state_digest;           // of the state after `applied`; zero: still being applied
  Digest applied_result_digest;  // of the sum of step `applied`
  Digest held_result_digest;     // of the sum of step `held`
  Digest fingerprint;            // compute fingerprint
  CheckpointName checkpoint;     // newest intact one on its disk; step 0: none
  Digest checkpoint_digest;      // of the state in it
  std::vector<NodeId> unreachable;  // members and acceptors that it cannot reach
  // To stop or to resume, as its node was given it: the next view carries it out, whoever proposes.
  std::optional<SignedOrder> order;
  std::vector<std::uint16_t> plan;   // of step applied + 1 in the current view; empty: not known
  std::vector<std::uint64_t> paces;  // smoothed times after `applied`, as in View
  std::vector<NodeId> learners;      // nodes on their way in that it hears, and that hear it
  Floor floor;                       // the newest one that it has noted
  Duration lease_left{};             // of what it has granted, when it promised
  std::uint64_t met = 0;             // mark of another part of the job, to be compared with
  bool operator==(const Standing&) const = default;
  Bytes bytes() const;  // in one fixed form, that a promise signs
};

struct Promiser {
  NodeId node;
  Standing standing;
};

// A node that asks to come in.
struct Joining {
  Member member;
  bool ready = false;           // holds the state but for results that the members still keep
  CheckpointName checkpoint{};  // newest intact one on its disk
  Digest checkpoint_digest{};
  bool had_part = false;  // in a view that is known to the proposer
  bool operator==(const Joining&) const = default;
};

// What the proposer goes by besides the promises. Nobody signs it: so no more may follow from it than
// who is let in.
struct Hearsay {
  std::vector<NodeId> witnesses;  // who could be one, in order of preference
  std::vector<Joining> joining;   // in order of preference
  std::vector<NodeId> barred;     // did not get on with fetching the state
  bool operator==(const Hearsay&) const = default;
};

}  // namespace gpunode::view
