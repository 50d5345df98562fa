// View: the agreed record of who trains next, from which step, under which plan. Immutable; one is
// decided for each view_id. Everything that members must do alike is a pure function of it.
//
// View 0 is written down by the job's manifest, not decided: its acceptors are the candidates, it
// has no members and stands before step 1. View v+1 is decided among the acceptors of view v.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::view {

// One life of a node: a restarted process is another member.
struct Member {
  NodeId node;
  Boot boot = 0;
  auto operator<=>(const Member&) const = default;
};

// Where a view stands among all views of its job: of two, the higher one goes on. Two recoveries
// that knew nothing of each other share a generation; their lineages differ.
struct ViewOrder {
  std::uint32_t generation = 0;
  std::uint64_t lineage = 0;
  std::uint64_t view_id = 0;
  auto operator<=>(const ViewOrder&) const = default;
  bool same_lineage(const ViewOrder& other) const {
    return generation == other.generation && lineage == other.lineage;
  }
};

// Which of a job's checkpoints: of two the higher one replaces the other.
struct CheckpointName {
  std::uint64_t epoch = 0;  // generation and rollbacks of the lineage that wrote it
  std::uint64_t step = 0;   // 0: none
  auto operator<=>(const CheckpointName&) const = default;
};
constexpr std::uint64_t checkpoint_epoch(std::uint32_t generation, std::uint32_t rollbacks) {
  return std::uint64_t{generation} << 32 | rollbacks;
}

struct View {
  JobId job;
  std::uint32_t generation = 0;  // raised only by a human's recovery
  std::uint64_t lineage = 0;     // of the recovery that began the generation; 0: none did
  std::uint64_t view_id = 0;
  Digest previous;                   // digest of the view before this one
  std::vector<Member> members;       // a member's place is its rank
  std::vector<NodeId> acceptors;     // who votes on the next view; in order of rank
  NodeId tie;                        // with it, exactly half of the acceptors is a quorum
  std::uint64_t base_step = 0;       // members resume from the state after this step
  Digest state_digest;               // of that state; zero: no proposer had it applied yet
  Digest result_digest;              // of the sum of base_step; zero for step 0
  std::vector<std::uint16_t> plan;   // slice -> rank, for step base_step + 1 alone
  std::uint32_t owner_rotation = 0;  // shifts the owners of chunks; +1 after a disagreement
  Digest fingerprint;                // the compute fingerprint that every member has
  std::uint32_t rollback_count = 0;  // times that the job went back to a checkpoint
  std::uint64_t disagreed_step = 0;  // step whose results differed last; 0: never
  std::vector<NodeId> sync_sources;  // members that hold the state at base_step
  bool stopped = false;              // nobody computes until a person resumes the job
  // Smoothed times of the members after base_step, from which all derive the plans of later steps
  // alike: words of collective::Paces, which nobody reads here. Empty: none known.
  std::vector<std::uint64_t> paces;
  // The newest checkpoint that may have been called durable before this view: no rollback goes
  // behind it.
  CheckpointName durable;

  bool operator==(const View&) const = default;
  Digest digest() const;
  ViewOrder order() const { return {generation, lineage, view_id}; }
  std::optional<std::uint16_t> rank_of(const NodeId& node) const;
  bool has_member(const Member& member) const;
  bool is_acceptor(const NodeId& node) const;
  // Votes and does not compute. Nobody is one in view 0, which has no members yet.
  bool is_witness(const NodeId& node) const;
};

// More than half of the view's acceptors are in `yes`, or exactly half including the tie-breaker.
// Nodes that are no acceptors, and repeated ones, do not count.
bool is_quorum(const View& view, std::span<const NodeId> yes);

// The members alone are no quorum: others may go on without them, from a checkpoint. So the members
// commit under a lease that a quorum renews, and a rollback waits until it has run out.
bool needs_lease(const View& view);

}  // namespace gpunode::view
