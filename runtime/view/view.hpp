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

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/view/signed_order.hpp"

namespace gpunode::view {

// One life of a node: a restarted process is another member.
struct Member {
  NodeId node;
  Boot boot = 0;
  auto operator<=>(const Member&) const = default;
};

// Where a job began another history: the view that did so, and why.
struct Turn {
  enum class Kind : std::uint8_t {
    rollback,  // nobody held the state any more: back to a checkpoint, by a quorum
    split,     // a part went on without a quorum, as on_lost_quorum = "continue" has it
    ordered    // likewise, as a person ordered it (`job recover --force`)
  };
  std::uint64_t view_id = 0;    // of the first view of the new history
  std::uint64_t base_step = 0;  // up to it the new history is the one before
  std::uint64_t mark = 0;       // of the new history, see HistoryId
  Kind kind = Kind::rollback;
  bool is_split() const { return kind != Kind::rollback; }
  auto operator<=>(const Turn&) const = default;
};

// Which of a job's checkpoints: of two the higher one replaces the other.
struct CheckpointName {
  HistoryId history;
  std::uint64_t step = 0;  // 0: none
  auto operator<=>(const CheckpointName&) const = default;
};

// The newest checkpoint that may have been reported durable: no view goes behind it.
struct Floor {
  CheckpointName name;
  std::vector<NodeId> holders;  // on whose disks it is, as far as it was known when it was noted
  bool operator==(const Floor&) const = default;
};

// One attempt to have the next view agreed on.
struct Ballot {
  std::uint64_t round = 0;  // 0: none
  NodeId proposer;
  auto operator<=>(const Ballot&) const = default;
};

// A view among all views of its job, as messages name it.
struct ViewName {
  HistoryId history;
  std::uint64_t view_id = 0;
  auto operator<=>(const ViewName&) const = default;
};

struct View {
  JobId job;
  std::uint64_t view_id = 0;
  std::vector<Turn> turns;        // on the way to this view, oldest first
  std::uint64_t met = 0;          // mark of the part that this view was formed to be compared with
  std::uint64_t met_step = 0;     // base_step of the first view that was formed for that
  Digest previous;                // digest of the view before this one
  std::vector<Member> members;    // a member's place is its rank
  std::vector<NodeId> acceptors;  // who votes on the next view; in order of rank
  NodeId tie;                     // with it, exactly half of the acceptors is a quorum
  std::uint64_t base_step = 0;    // members resume from the state after this step
  Digest state_digest;            // of that state; zero: no proposer had it applied yet
  Digest result_digest;           // of the sum of base_step; zero for step 0
  std::vector<std::uint16_t> plan;   // slice -> rank, for step base_step + 1 alone
  std::uint32_t owner_rotation = 0;  // shifts the owners of chunks; +1 after a disagreement
  Digest fingerprint;                // the compute fingerprint that every member has
  bool restores = false;             // the base is a checkpoint: its sources load it
  std::uint64_t disagreed_step = 0;  // step whose results differed last; 0: never
  std::vector<NodeId> sync_sources;  // who holds the state at base_step
  bool stopped = false;              // nobody computes until a person resumes the job
  std::optional<SignedOrder> order;  // the last one that a view on the way here has carried out
  // A member of an earlier view of this history is left out that committed under a lease, and may
  // do so until that has run out.
  bool left_out = false;
  // Smoothed times of the members after base_step, from which all derive the plans of later steps
  // alike: words of collective::Paces, which nobody reads here. Empty: none known.
  std::vector<std::uint64_t> paces;
  Floor floor;
  std::vector<NodeId> put_out;  // was proven to have voted twice: has no part any more; by name

  bool operator==(const View&) const = default;
  Bytes bytes() const;  // in one fixed form, that votes sign
  // Of its lists, in memory as on the wire.
  std::size_t list_bytes() const;
  Digest digest() const;
  // To which its base and all later states belong.
  HistoryId history() const {
    if (turns.empty()) return {};
    return {static_cast<std::uint32_t>(turns.size()), turns.back().mark};
  }
  // Whether the state of that history and step is one that this view's states have come from.
  bool descends_from(const HistoryId& history, std::uint64_t step) const;
  ViewName name() const { return {history(), view_id}; }
  // Times that a part went on without a quorum, for people.
  std::uint32_t generation() const;
  std::optional<std::uint16_t> rank_of(const NodeId& node) const;
  bool has_member(const Member& member) const;
  bool is_acceptor(const NodeId& node) const;
  // Is a member, or votes.
  bool has_part(const NodeId& node) const;
  // Is named to give a state: the base, or the durable checkpoint.
  bool gives(const NodeId& node) const;
  // Votes and does not compute. Nobody is one in view 0, which has no members yet.
  bool is_witness(const NodeId& node) const;
};

// Two words on one state, or on one result: equal, or one of them is zero, which is not known.
bool agree(const Digest& left, const Digest& right);

// More than half of the acceptors are in `yes`, or exactly half including the tie-breaker.
// Nodes that are no acceptors, and repeated ones, do not count.
bool is_quorum(std::span<const NodeId> acceptors, const NodeId& tie, std::span<const NodeId> yes);
bool is_quorum(const View& view, std::span<const NodeId> yes);

// The members alone are no quorum: others may go on without them, from a checkpoint. So the members
// commit under a lease that a quorum renews, and a rollback waits until it has run out.
bool needs_lease(const View& view);

// Of two views of one job, which one a node that knows both belongs to. Both sides of a split
// compute the same from the same two views, so exactly one of them gives way:
//   one chain                        | the higher view_id
//   one has split off before the     | the other, which had the quorum; but a split ordered by a
//   other's view was formed          | person goes before a quorum
//   both have split off              | ordered before not ordered, then the later met_step, then
//                                    | the lower mark; open until both were formed for it
enum class Precedence : std::uint8_t { ours, theirs, open };
Precedence precedence(const View& theirs, const View& ours);
// The mark of the first split of `theirs` that `ours` does not share; 0: there is none.
std::uint64_t parted_by(const View& theirs, const View& ours);
// Whether `later` has come from `earlier`, by the turns of both.
bool lies_behind(const View& earlier, const View& later);

}  // namespace gpunode::view
