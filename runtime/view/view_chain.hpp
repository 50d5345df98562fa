// How a view came about, and the proof of it for who knows only an earlier one. A decided view
// carries the signatures of the quorum that accepted it; a chain is a row of them, from view 0,
// which the manifest names, to the view of now. It may leave views out: who is a quorum of an
// earlier view and signs for a later one has honest nodes among it, which signed only as they had
// the proof of all that lies between. So a chain stays short where the same nodes vote, however
// often the view changes. Pure.
//
//   a view is proven from an earlier one by     | if
//   signatures of a quorum of its own voters,   | both are of one part of the job; the earlier view
//   and of a quorum of the earlier view's       | is the newest that is known of that part
//   the signature of one that went on by itself | that one has, or had, a part, and the job lets
//   (View::turns ends with a split)             | parts go on; or the view carries the order for it
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/view/signer.hpp"
#include "runtime/view/view.hpp"
#include "runtime/view/view_proof.hpp"

namespace gpunode::view {

// One node's signature under a view.
struct Seal {
  NodeId node;
  Signature signature{};
  bool operator==(const Seal&) const = default;
};

struct DecidedView {
  View view;
  Ballot ballot;               // in which it was accepted
  std::vector<NodeId> voters;  // the acceptors of the view before it
  NodeId tie;                  // likewise
  std::vector<Seal> seals;     // of a quorum of the voters; or of who went on without one
  // What the voters were shown. It says who has voted twice, if another view was decided beside this
  // one (double_vote.hpp), and is needed for nothing else.
  Proof proof{};
  bool operator==(const DecidedView&) const = default;
  bool is_split() const;  // its part went on with it without a quorum
  std::vector<NodeId> signers() const;
};
inline constexpr std::string_view kVotePurpose = "gpunode view vote 1";
inline constexpr std::string_view kSplitPurpose = "gpunode view split 1";

// What a vote for `next` signs, as one of the acceptors of `before`, or who goes on alone.
Bytes vote_bytes(const Ballot& ballot, const View& before, const View& next);
Bytes vote_bytes(const DecidedView& decided);

// From which a node judges what others say of views.
struct Trust {
  View first;  // view 0
  std::shared_ptr<const Signer> signer;
  bool parts_go_on = false;  // the job's on_lost_quorum is "continue"
  MayOrder may_order;        // none: nobody may
};

// Oldest first; the last is the view of now. Empty: that is view 0.
using ViewChain = std::vector<DecidedView>;

// So many views before the newest are kept all, so that whoever missed a few finds one that follows
// on its own.
inline constexpr std::size_t kKeptWhole = 8;

// One view more, and what is no longer needed is left out.
ViewChain extended(const View& first, ViewChain chain, DecidedView next);
// The proofs of the newest views stay that take no more bytes in all: what holds them has a bound.
void bound_proofs(ViewChain& chain, std::size_t bytes);

// `own` brought on by what was `told`: to the last view of `told`, if that is proven. `astray`: this
// node has long been without a quorum or has no part in its view, so that a view may be proven from
// any earlier one that it knows.
struct Proven {
  ViewChain chain;       // that ends with the last view told; empty: it is not proven
  ViewChain on_the_way;  // of those told, which are proven, oldest first
  bool operator==(const Proven&) const = default;
};
Proven prove(const Trust& trust, const ViewChain& own, const ViewChain& told, bool astray);

// What a node that knows this view needs; oldest first, the newest always the last, of about a
// quarter of a megabyte: the rest is to be asked for from the last one that was proven.
ViewChain since(const ViewChain& chain, const ViewName& known);

}  // namespace gpunode::view
