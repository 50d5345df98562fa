// Two views that were both decided after the same one, by its voters: a fork. No honest voters let
// that come about, so some of them have signed what contradicts itself, and it can be read off the
// two views who has, by whoever sees them. Nobody else's word is needed. Pure.
//
// Two words of one node on the view after the same one contradict each other if they are
//   votes in one ballot, for two views
//   a vote in ballot b, and a promise for any ballot that tells of a vote in b for another view
//   a vote in ballot b, and a promise for a later ballot that tells of no vote in b or later
// No honest node signs such two: it votes for one view in a ballot, and its votes and promises are on
// its disk before they leave, each for a ballot that is higher than those before.
//
// Whenever there is a fork, some voter is exposed: let the one view be decided in ballot b by quorum Q,
// the other in c >= b. If c = b, a node is in both quorums. Else look at the lowest ballot above b in
// which the other was asked for: of the promises of a quorum for that one is of a node of Q, and tells
// of a vote below b, or of none. Proofs leave ballots out (view_proof.hpp), so whoever has seen such a
// one keeps it, up to a number. Two things are not promised: a name where the proposer of ballot b
// asked for both views, and one where all who have seen what would tell it are gone.
#pragma once

#include <optional>

#include "runtime/view/view_chain.hpp"

namespace gpunode::view {

struct Fork {
  View before;
  DecidedView ours, theirs;
};

// The first view of `own` beside which `told` has another one, if its signatures are of a quorum that
// had to decide it. None also where what was before the fork is no longer in `own`.
std::optional<Fork> fork_of(const Trust& trust, const ViewChain& own, const ViewChain& told);

// Who has signed two words that contradict each other; by name. Each was verified against its key.
std::vector<NodeId> exposed_by(const Signer& signer, const Fork& fork);

// Which of the two goes on, alike for all: the one of the higher ballot.
bool theirs_goes_on(const Fork& fork);

// `own` up to the fork, and from there on what was told, as far as that is proven; empty: not to the
// end of what was told.
ViewChain over_to_theirs(const Trust& trust, const ViewChain& own, const ViewChain& told,
                         const Fork& fork);

}  // namespace gpunode::view
