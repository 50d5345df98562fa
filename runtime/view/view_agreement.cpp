#include "runtime/view/view_agreement.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::view {

namespace {
// A ballot this far ahead of all that is known here is not followed at once: each that comes leads
// so far towards it. So no liar's round is the last, and honest nodes that one of them has led
// apart meet again.
constexpr std::uint64_t kRoundsAhead = std::uint64_t{1} << 32;

bool by_name(const Floor& left, const Floor& right) {
  return left.name < right.name;
}
}  // namespace

std::optional<Claim> Promise::claim() const {
  if (!accepted) return std::nullopt;
  return Claim{accepted->ballot, accepted->view};
}

ViewAgreement::ViewAgreement(Options options)
    : options_(std::move(options)), votes_(std::move(options_.votes)), rng_(options_.seed) {
  frozen_ = votes_.promised.round > 0 || votes_.accepted.has_value();
  highest_round_ = votes_.promised.round;
}

bool ViewAgreement::is_acceptor() const {
  return votes_.view.is_acceptor(options_.self);
}

// Everyone whose standing counts for the next view: who votes, and members that do not yet; and who
// forces one from outside, for itself.
std::vector<NodeId> ViewAgreement::asked() const {
  std::vector<NodeId> nodes = votes_.view.acceptors;
  for (const Member& member : votes_.view.members)
    if (!votes_.view.is_acceptor(member.node)) nodes.push_back(member.node);
  if (is_asked() && !votes_.view.has_part(options_.self)) nodes.push_back(options_.self);
  return nodes;
}

bool ViewAgreement::is_asked() const {
  return votes_.view.has_part(options_.self) || (proposal_ && proposal_->forced);
}

Duration ViewAgreement::grace() const {
  return votes_.view.view_id == 0 ? options_.timings.forming_grace : options_.timings.grace;
}

bool ViewAgreement::quorum(std::span<const NodeId> yes) const {
  if (broken("half_quorum_without_tie")) {
    const auto count = std::count_if(
        yes.begin(), yes.end(), [&](const NodeId& node) { return votes_.view.is_acceptor(node); });
    return 2 * static_cast<std::size_t>(count) >= votes_.view.acceptors.size() && count > 0;
  }
  return is_quorum(votes_.view, yes);
}

// Who forces a view from outside has a part in its own.
bool ViewAgreement::has_part(const NodeId& node) const {
  return votes_.view.has_part(node) || node == options_.self;
}

// Takes note of the ballot; false: it is too far ahead of what is known here.
bool ViewAgreement::follows(const Ballot& ballot) {
  const std::uint64_t furthest = highest_round_ + kRoundsAhead;
  highest_round_ = std::max(highest_round_, std::min(ballot.round, furthest));
  return ballot.round <= furthest;
}

Standing ViewAgreement::standing() {
  return options_.freeze();
}

void ViewAgreement::want_change(Time now) {
  if (wanted_at_ || proposal_) return;
  wanted_since_ = now;
  if (!is_acceptor())
    waiting_reason_ = "those that vote are to decide on the next view: " + voters();
  wanted_at_ = now + (is_acceptor() ? turn_delay() : options_.timings.retry);
}

void ViewAgreement::force(Time now, Effects& out) {
  start_ballot(now, out, true);
}

std::vector<NodeId> ViewAgreement::missing() const {
  std::vector<NodeId> nodes;
  for (const NodeId& acceptor : votes_.view.acceptors) {
    const bool heard =
        acceptor == options_.self ||
        (proposal_ ? proposal_->promises.contains(acceptor) : hearing_.echoed.contains(acceptor));
    if (!heard) nodes.push_back(acceptor);
  }
  return nodes;
}

std::string ViewAgreement::voters() const {
  std::string text;
  for (const NodeId& acceptor : votes_.view.acceptors)
    text += (text.empty() ? "node " : ", node ") + acceptor.short_text();
  return text;
}

std::string ViewAgreement::lack_of_quorum() const {
  const std::size_t voters = votes_.view.acceptors.size();
  const std::size_t heard = voters - missing().size();
  std::string text = "no quorum of the last view answers: " + std::to_string(heard) + " of its " +
                     std::to_string(voters) + " voters do, " + std::to_string(voters / 2 + 1) +
                     " are needed";
  if (voters % 2 == 0)
    text += ", or " + std::to_string(voters / 2) + " with node " + votes_.view.tie.short_text();
  return text;
}

void ViewAgreement::on_message(Time now, const NodeId& from, const VoteMessage& message,
                               Effects& out) {
  if (const auto* prepare = std::get_if<Prepare>(&message)) on_prepare(now, from, *prepare, out);
  if (const auto* promise = std::get_if<Promise>(&message)) on_promise(now, from, *promise, out);
  if (const auto* refuse = std::get_if<Refuse>(&message)) on_refuse(now, from, *refuse);
  if (const auto* accept = std::get_if<Accept>(&message)) on_accept(now, from, *accept, out);
  if (const auto* accepted = std::get_if<Accepted>(&message)) on_accepted(from, *accepted, out);
  if (const auto* probe = std::get_if<Probe>(&message))
    if (is_acceptor()) deliver(now, from, Echo{probe->nonce}, out);
  if (const auto* echo = std::get_if<Echo>(&message)) on_echo(now, from, *echo, out);
  if (const auto* note = std::get_if<NoteFloor>(&message)) on_note(now, from, *note, out);
  if (const auto* noted = std::get_if<FloorNoted>(&message)) on_noted(from, *noted, out);
}

void ViewAgreement::on_prepare(Time now, const NodeId& from, const Prepare& message, Effects& out) {
  if (!is_asked() || !has_part(from) || message.ballot.round == 0 ||
      message.ballot.proposer != from || !follows(message.ballot))
    return;
  if (message.ballot < votes_.promised) {
    deliver(now, from, Refuse{votes_.promised}, out);
    return;
  }
  if (!message.why.empty()) why_not_ = message.why;
  yield_to(now, message.ballot);
  votes_.promised = message.ballot;
  Standing where = standing();
  where.floor = votes_.floor;
  if (!broken("no_freeze_on_promise")) frozen_ = true;
  Promise promise{message.ballot, votes_.accepted, where};
  promise.signature = options_.trust.signer->sign(
      kPromisePurpose, promise_bytes(votes_.view, promise.ballot, promise.claim(), where));
  if (is_acceptor())
    persist_then(from, std::move(promise), now, out);
  else
    deliver(now, from, std::move(promise), out);
}

void ViewAgreement::on_accept(Time now, const NodeId& from, const Accept& message, Effects& out) {
  if (!is_acceptor() || !votes_.view.is_acceptor(from) || message.ballot.round == 0 ||
      message.ballot.proposer != from)
    return;
  if (message.view.view_id != votes_.view.view_id + 1 || message.view.job != votes_.view.job ||
      message.view.previous != votes_.view.digest())
    return;
  if (!follows(message.ballot)) return;
  if (message.ballot < votes_.promised) {
    deliver(now, from, Refuse{votes_.promised}, out);
    return;
  }
  // One view in a ballot, whatever its proposer asks for.
  const bool again = votes_.accepted && votes_.accepted->ballot == message.ballot;
  if (again && votes_.accepted->view != message.view && !broken("votes_twice_in_a_ballot")) return;
  if (from != options_.self && !proves(message.ballot, message.view, message.proof)) {
    ++unproven_;
    return;
  }
  yield_to(now, message.ballot);
  votes_.promised = message.ballot;
  AcceptedView accepted{message.ballot, message.view, message.proof};
  accepted.proof.left_out.clear();  // which nobody has looked at
  if (votes_.accepted && votes_.accepted->view == message.view)
    keep_levels(accepted.proof, votes_.accepted->proof);
  votes_.accepted = std::move(accepted);
  standing();
  if (!broken("no_freeze_on_promise")) frozen_ = true;
  const Bytes vote = vote_bytes(message.ballot, votes_.view, message.view);
  persist_then(from, Accepted{message.ballot, options_.trust.signer->sign(kVotePurpose, vote)}, now,
               out);
}

// Somebody else's ballot is at work: our own proposal ends, and our next turn comes only if
// nothing is decided for a while.
void ViewAgreement::yield_to(Time now, const Ballot& ballot) {
  if (ballot.proposer == options_.self) return;
  if (!proposal_ && !wanted_at_) wanted_since_ = now;
  proposal_.reset();
  const VoteTimings& timings = options_.timings;
  wanted_at_ = now + grace() + timings.retry + turn_delay();
  yielded_to_ = ballot.proposer;
  waiting_reason_ =
      why_not_.empty() ? "node " + ballot.proposer.short_text() + " is collecting votes" : why_not_;
}

void ViewAgreement::on_tick(Time now, Effects& out) {
  if (noting_ && !frozen_ && now >= noting_->asked + options_.timings.note_every)
    ask_to_note(now, out);
  if (proposal_) {
    if (!proposal_->value) try_value(now, out);
    if (!proposal_ || now < proposal_->retry_at) return;
    proposal_.reset();  // a forced one is tried once
    wanted_at_ = now;
    if (!is_asked()) frozen_ = false;  // what it promised, it promised to itself alone
  }
  if (wanted_at_ && yielded_to_ && options_.suspected(*yielded_to_)) {
    // Nothing will come of its ballot: no reason to wait for it.
    yielded_to_.reset();
    wanted_at_ = std::min(*wanted_at_, now + turn_delay());
  }
  if (!wanted_at_ || now < *wanted_at_) return;
  if (is_acceptor())
    probe(now, out);
  else
    wanted_at_.reset();  // the hint was sent; who may vote goes on
}

void ViewAgreement::persist_then(const NodeId& to, VoteMessage message, Time now, Effects& out) {
  if (broken("promise_not_durable")) {
    deliver(now, to, std::move(message), out);
    return;
  }
  const std::uint64_t token = next_token_++;
  out.persists.emplace_back(token, encode_votes(votes_));
  deferred_.push_back({token, to, std::move(message)});
}

void ViewAgreement::deliver(Time now, const NodeId& to, VoteMessage message, Effects& out) {
  if (to == options_.self)
    on_message(now, to, message, out);
  else
    out.sends.emplace_back(to, std::move(message));
}

void ViewAgreement::on_persisted(Time now, std::uint64_t token, Effects& out) {
  std::vector<Deferred> ready;
  while (!deferred_.empty() && deferred_.front().token <= token) {
    ready.push_back(std::move(deferred_.front()));
    deferred_.erase(deferred_.begin());
  }
  for (Deferred& one : ready) {
    // A ballot that was given up meanwhile would only freeze the others.
    const auto* asks = std::get_if<Prepare>(&one.message);
    if (asks && !(proposal_ && proposal_->ballot == asks->ballot)) continue;
    deliver(now, one.to, std::move(one.message), out);
  }
}

ViewChain ViewAgreement::with(DecidedView decided) const {
  return extended(options_.trust.first, votes_.chain, std::move(decided));
}

void ViewAgreement::adopt(ViewChain chain, Effects& out) {
  View view = chain.back().view;
  // What this node has seen itself comes first: a teller may say anything of what is not needed.
  Proof seen;
  if (votes_.accepted && votes_.accepted->view == view) seen = votes_.accepted->proof;
  keep_levels(seen, chain.back().proof);
  chain.back().proof = std::move(seen);
  // Of another part of the job, or an undone history, nothing noted here is of any meaning.
  Floor floor = view.floor;
  if (view.history() == votes_.view.history()) floor = std::max(floor, votes_.floor, by_name);
  votes_ = Votes{std::move(view), std::move(chain), {}, {}, std::move(floor)};
  noting_.reset();
  frozen_ = false;
  wanted_at_.reset();
  yielded_to_.reset();
  proposal_.reset();
  hearing_ = {};
  highest_round_ = 0;
  attempts_ = 0;
  waiting_reason_.clear();
  why_not_.clear();
  deferred_.clear();  // they belong to the instance that is over
  out.persists.emplace_back(next_token_++, encode_votes(votes_));
}

}  // namespace gpunode::view
