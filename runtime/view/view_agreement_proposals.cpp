// How an acceptor proposes: it asks whether a quorum hears it, then for promises, then for votes; and
// what it makes of what it is told.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::view {

// The lowest live rank goes first, the others after it in steps wide enough for a ballot to win.
Duration ViewAgreement::turn_delay() {
  std::size_t before = 0;
  for (const NodeId& acceptor : votes_.view.acceptors) {
    if (acceptor == options_.self) break;
    if (!options_.suspected(acceptor)) ++before;
  }
  const auto jitter = static_cast<std::uint64_t>(options_.timings.jitter.count());
  return before * options_.timings.rank_delay +
         Duration(jitter == 0 ? 0 : static_cast<std::int64_t>(rng_.below(jitter)));
}

bool ViewAgreement::is_heard(Time now) const {
  if (broken("no_quorum_check")) return true;
  std::vector<NodeId> heard{options_.self};
  for (const auto& [node, asked] : hearing_.echoed)
    if (now <= asked + options_.timings.echo_fresh) heard.push_back(node);
  return quorum(heard);
}

// A node that cannot hear a quorum would only freeze the others, again and again.
void ViewAgreement::probe(Time now, Effects& out) {
  const VoteTimings& timings = options_.timings;
  if (is_heard(now)) {
    start_ballot(now, out);
    return;
  }
  const auto stale = [&](const auto& one) { return now > one.second + timings.echo_fresh; };
  std::erase_if(hearing_.asked, stale);
  std::erase_if(hearing_.echoed, stale);
  if (!hearing_.asked.empty() && now < hearing_.asked.back().second + timings.probe_every) return;
  const std::uint64_t nonce = rng_.next();
  // Who was asked a moment ago has not answered.
  if (!hearing_.asked.empty() || waiting_reason_.empty()) waiting_reason_ = lack_of_quorum();
  hearing_.asked.emplace_back(nonce, now);
  for (const NodeId& acceptor : votes_.view.acceptors)
    if (acceptor != options_.self) out.sends.emplace_back(acceptor, Probe{nonce});
}

void ViewAgreement::heard_by(const NodeId& peer, Time sent) {
  if (!votes_.view.is_acceptor(peer)) return;
  Time& newest = hearing_.echoed[peer];
  newest = std::max(newest, sent);
}

void ViewAgreement::on_echo(Time now, const NodeId& from, const Echo& message, Effects& out) {
  for (const auto& [nonce, asked] : hearing_.asked)
    if (nonce == message.nonce) heard_by(from, asked);
  if (is_acceptor() && wanted_at_ && now >= *wanted_at_) probe(now, out);
}

void ViewAgreement::start_ballot(Time now, Effects& out, bool forced) {
  const std::uint64_t round = std::max(highest_round_, votes_.promised.round) + 1;
  highest_round_ = round;
  const VoteTimings& timings = options_.timings;
  Duration timeout = timings.retry * (1u << std::min(attempts_, 4u));
  timeout = std::min(timeout, timings.retry_max);
  timeout += Duration(
      static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(timeout.count()) / 2 + 1)));
  ++attempts_;
  yielded_to_.reset();
  proposal_ =
      Proposal{{round, options_.self}, now, now + grace() + timeout, {}, {}, {}, {}, forced};
  wanted_at_.reset();
  waiting_reason_ =
      why_not_.empty() ? "a quorum of the last view is asked for its promise" : why_not_;
  // Asking waits for the own promise to be durable as well: after a restart this ballot must not
  // be used a second time, for another value.
  const Ballot ballot = proposal_->ballot;
  const std::vector<NodeId> peers = asked();
  on_prepare(now, options_.self, Prepare{ballot}, out);
  for (const NodeId& peer : peers) {
    if (peer == options_.self) continue;
    if (broken("promise_not_durable") || !is_acceptor())
      out.sends.emplace_back(peer, Prepare{ballot, why_not_});
    else
      deferred_.push_back({next_token_ - 1, peer, Prepare{ballot, why_not_}});
  }
}

void ViewAgreement::on_promise(Time now, const NodeId& from, const Promise& message, Effects& out) {
  if (!proposal_ || proposal_->ballot != message.ballot || proposal_->value) return;
  if (!has_part(from)) return;
  const auto known = proposal_->promises.find(from);
  const bool repeated =
      known != proposal_->promises.end() && known->second.promise.signature == message.signature;
  if (!repeated && from != options_.self && !is_genuine(from, message)) {
    ++unproven_;
    return;
  }
  proposal_->promises[from] = {message, now};
  try_value(now, out);
}

// The promise is as its giver signed it, and what it says to have accepted could be voted for.
bool ViewAgreement::is_genuine(const NodeId& from, const Promise& message) const {
  const Told told{from, message.claim(), message.standing, message.signature};
  if (!view::is_genuine(*options_.trust.signer, votes_.view, message.ballot, told)) return false;
  const auto& accepted = message.accepted;
  return !accepted || (accepted->ballot < message.ballot &&
                       proves(accepted->ballot, accepted->view, accepted->proof));
}

bool ViewAgreement::proves(const Ballot& ballot, const View& next, const Proof& proof) const {
  return next.view_id == votes_.view.view_id + 1 &&
         view::proves(*options_.trust.signer, votes_.view, ballot, next, proof, options_.follows);
}

void ViewAgreement::try_value(Time now, Effects& out) {
  Proposal& proposal = *proposal_;
  std::vector<NodeId> promised;
  bool all_answered = true;
  for (const NodeId& peer : asked()) {
    if (proposal.promises.contains(peer))
      promised.push_back(peer);
    else if (!options_.suspected(peer))
      all_answered = false;
  }
  if (!proposal.forced && !quorum(promised)) return;
  if (proposal.forced && !proposal.promises.contains(options_.self)) return;
  if (!all_answered && now < proposal.started + grace()) return;

  if (!choose_value(now, promised)) return;
  if (proposal.forced) {
    const Bytes message = vote_bytes(proposal.ballot, votes_.view, *proposal.value);
    out.decided = sealed({{options_.self, options_.trust.signer->sign(kSplitPurpose, message)}});
    proposal_.reset();
    return;
  }
  waiting_reason_ = "collecting votes on the next view";
  proposal.retry_at = std::max(proposal.retry_at, now + options_.timings.retry);
  const Accept accept{proposal.ballot, *proposal.value, proposal.proof};
  for (const NodeId& acceptor : votes_.view.acceptors)
    if (acceptor != options_.self) out.sends.emplace_back(acceptor, accept);
  on_accept(now, options_.self, accept, out);
}

// What somebody has accepted already, or else what follows from the promises. False: nothing does.
bool ViewAgreement::choose_value(Time now, const std::vector<NodeId>& promised) {
  Proposal& proposal = *proposal_;
  const AcceptedView* newest = nullptr;
  std::vector<Promiser> promisers;
  Level level{proposal.ballot, {}};
  for (const NodeId& node : promised) {
    const auto& [promise, received] = proposal.promises[node];
    promisers.push_back({node, promise.standing});
    Duration& left = promisers.back().standing.lease_left;
    left = std::max(Duration{}, left - (now - received));
    level.promises.push_back({node, promise.claim(), promise.standing, promise.signature});
    if (promise.accepted && (!newest || newest->ballot < promise.accepted->ballot))
      newest = &*promise.accepted;
  }
  if (newest && !proposal.forced) {
    proposal.value = newest->view;
    proposal.proof = taken_over(std::move(level), *newest);
    return true;
  }
  Hearsay hearsay = options_.hear(promisers);
  Result<View> composed = options_.compose(promisers, hearsay, proposal.forced);
  if (!composed) {
    waiting_reason_ = why_not_ = composed.error().detail;
    return false;
  }
  proposal.value = std::move(*composed);
  proposal.proof = {{std::move(level)}, std::move(hearsay)};
  return true;
}

void ViewAgreement::on_refuse(Time now, const NodeId& from, const Refuse& message) {
  if (!has_part(from)) return;
  follows(message.promised);
  if (proposal_ && proposal_->ballot < message.promised) yield_to(now, message.promised);
}

void ViewAgreement::on_accepted(const NodeId& from, const Accepted& message, Effects& out) {
  if (!proposal_ || !proposal_->value || proposal_->ballot != message.ballot) return;
  if (!votes_.view.is_acceptor(from) || proposal_->accepted_by.contains(from)) return;
  const Bytes vote = vote_bytes(message.ballot, votes_.view, *proposal_->value);
  if (from != options_.self &&
      !options_.trust.signer->verify(from, kVotePurpose, vote, message.signature))
    return;
  proposal_->accepted_by[from] = message.signature;
  try_decide(out);
}

void ViewAgreement::try_decide(Effects& out) {
  std::vector<NodeId> yes;
  std::vector<Seal> seals;
  for (const auto& [node, signature] : proposal_->accepted_by) {
    yes.push_back(node);
    seals.push_back({node, signature});
  }
  if (!quorum(yes)) return;
  out.decided = sealed(std::move(seals));
  proposal_.reset();
}

DecidedView ViewAgreement::sealed(std::vector<Seal> seals) const {
  return {*proposal_->value, proposal_->ballot, votes_.view.acceptors,
          votes_.view.tie,   std::move(seals),  proposal_->proof};
}

}  // namespace gpunode::view
