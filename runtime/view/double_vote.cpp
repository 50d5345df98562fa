#include "runtime/view/double_vote.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::view {

namespace {

bool has_voted(const Signer& signer, const DecidedView& decided, const Seal& seal) {
  return signer.verify(seal.node, kVotePurpose, vote_bytes(decided), seal.signature);
}

// What this promise tells is not what one tells who has voted for `decided`.
bool denies(const DecidedView& decided, const Ballot& ballot, const std::optional<Claim>& told) {
  if (told && told->ballot == decided.ballot) return told->view != decided.view;
  return ballot > decided.ballot && (!told || told->ballot < decided.ballot);
}

// Those that have voted for the one, by the seals under it, and have denied it for the other.
void look(const Signer& signer, const View& before, const DecidedView& one,
          const DecidedView& other, std::set<NodeId>& found) {
  for (const Seal& seal : one.seals) {
    const auto votes_again = [&](const Seal& second) {
      return second.node == seal.node && one.ballot == other.ballot && one.view != other.view &&
             has_voted(signer, other, second);
    };
    const auto promises = [&](const Level& level) {
      return std::any_of(level.promises.begin(), level.promises.end(), [&](const Told& told) {
        return told.node == seal.node && denies(one, level.ballot, told.accepted) &&
               is_genuine(signer, before, level.ballot, told);
      });
    };
    const auto& [levels, hearsay, left_out] = other.proof;
    const bool denied = std::any_of(other.seals.begin(), other.seals.end(), votes_again) ||
                        std::any_of(levels.begin(), levels.end(), promises) ||
                        std::any_of(left_out.begin(), left_out.end(), promises);
    if (denied && has_voted(signer, one, seal)) found.insert(seal.node);
  }
}

bool follows(const View& before, const DecidedView& next) {
  return !next.is_split() && next.view.job == before.job &&
         next.view.view_id == before.view_id + 1 && next.view.previous == before.digest() &&
         next.voters == before.acceptors && next.tie == before.tie;
}

bool is_decided(const Signer& signer, const View& before, const DecidedView& next) {
  return follows(before, next) && next.seals.size() <= next.voters.size() &&
         is_quorum(before, next.signers()) &&
         std::all_of(next.seals.begin(), next.seals.end(),
                     [&](const Seal& seal) { return has_voted(signer, next, seal); });
}

}  // namespace

std::optional<Fork> fork_of(const Trust& trust, const ViewChain& own, const ViewChain& told) {
  const View* before = &trust.first;
  for (const DecidedView& ours : own) {
    if (follows(*before, ours))
      // Evidence of a fork has two of one number, and nothing honest has more.
      for (int looked = 0; const DecidedView& theirs : told) {
        if (theirs.view.view_id != ours.view.view_id || looked++ >= 2) continue;
        if (theirs.view != ours.view &&
            (is_decided(*trust.signer, *before, theirs) || broken("forks_unsigned")))
          return Fork{*before, ours, theirs};
      }
    before = &ours.view;
  }
  return std::nullopt;
}

std::vector<NodeId> exposed_by(const Signer& signer, const Fork& fork) {
  std::set<NodeId> found;
  if (!follows(fork.before, fork.ours) || !follows(fork.before, fork.theirs)) return {};
  look(signer, fork.before, fork.ours, fork.theirs, found);
  look(signer, fork.before, fork.theirs, fork.ours, found);
  return {found.begin(), found.end()};
}

bool theirs_goes_on(const Fork& fork) {
  if (fork.ours.ballot != fork.theirs.ballot) return fork.ours.ballot < fork.theirs.ballot;
  return fork.ours.view.digest() < fork.theirs.view.digest();
}

ViewChain over_to_theirs(const Trust& trust, const ViewChain& own, const ViewChain& told,
                         const Fork& fork) {
  ViewChain shared, after;
  for (const DecidedView& one : own)
    if (one.view.view_id < fork.ours.view.view_id) shared.push_back(one);
  for (const DecidedView& one : told)
    if (one.view.view_id >= fork.ours.view.view_id && one.view != fork.ours.view)
      after.push_back(one);
  return prove(trust, shared, after, false).chain;
}

}  // namespace gpunode::view
