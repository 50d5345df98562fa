#include "tests/sim/job_liar.hpp"

#include <algorithm>

#include "runtime/base/block_digest.hpp"
#include "tests/sim/job_world.hpp"
#include "tests/support/twin_orders.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::sim {

Liar::Liar(const NodeId& self, bool has_part, const JobModel& model, std::uint64_t seed)
    : self_(self),
      has_part_(has_part),
      total_steps_(model.total_steps),
      state_bytes_(model.bytes_of_state(model.initial_state()).size()),
      rng_(seed) {}

void Liar::overhear(const NodeId& from, job::JobMessage& message) {
  note(message);
  auto* vote = std::get_if<job::Vote>(&message.body);
  if (!has_part_ || !vote || newest_.empty() || newest_.back().view.name() != message.view) return;
  const view::View& now = newest_.back().view;
  if (const auto* accepted = std::get_if<view::Accepted>(&vote->message))
    return gather(from, *accepted);
  if (from != self_) return;
  if (auto* promise = std::get_if<view::Promise>(&vote->message); promise && rng_.chance(0.3)) {
    promise->standing.order = forged_order();
    *promise = view::promised_by(self_, now, promise->ballot, promise->standing, promise->accepted);
  }
  if (auto* accept = std::get_if<view::Accept>(&vote->message)) propose_falsely(now, *accept);
}

// By the promises that it has got: another view than the one that follows, one for each ballot.
void Liar::propose_falsely(const view::View& now, view::Accept& accept) {
  if (!false_ || false_->ballot != accept.ballot || false_->view.previous != now.digest()) {
    if (rng_.chance(0.5)) return;
    false_ = view::DecidedView{false_view(accept.view), accept.ballot, now.acceptors, now.tie, {}};
    false_->seals.push_back(
        {self_, view::TwinSigner(self_).sign(view::kVotePurpose, view::vote_bytes(*false_))});
  }
  accept.view = false_->view;
  if (rng_.chance(0.2) && !accept.proof.levels.empty() && !accept.proof.levels[0].promises.empty())
    accept.proof.levels[0].promises.pop_back();
}

void Liar::gather(const NodeId& from, const view::Accepted& accepted) {
  if (!false_ || accepted.ballot != false_->ballot || from == self_) return;
  const bool meant = view::TwinSigner(self_).verify(from, view::kVotePurpose,
                                                    view::vote_bytes(*false_), accepted.signature);
  const auto known = false_->signers();
  if (!meant || std::ranges::find(known, from) != known.end()) return;
  false_->seals.push_back({from, accepted.signature});
  if (view::is_quorum(false_->voters, false_->tie, false_->signers())) won_ = *false_;
}

view::View Liar::false_view(view::View next) {
  switch (rng_.below(5)) {
    case 0:  // somebody is left out
      if (next.members.size() < 2) break;
      next.members.erase(next.members.begin() +
                         static_cast<std::ptrdiff_t>(rng_.below(next.members.size())));
      std::erase_if(next.acceptors, [&](const NodeId& one) { return !next.rank_of(one); });
      if (next.acceptors.empty()) next.acceptors = {next.members.front().node};
      if (!next.is_acceptor(next.tie)) next.tie = next.acceptors.front();
      next.plan.assign(next.plan.size(), 0);
      break;
    case 1:  // a state that nobody has
      next.state_digest = next.result_digest = {rng_.next(), rng_.next()};
      break;
    case 2:
      next.base_step = std::min(next.base_step + 1, total_steps_);
      break;
    case 3:  // back to a checkpoint that there may be, or to the start
      next.restores = true;
      next.base_step = rng_.chance(0.5) ? 0 : rng_.below(next.base_step + 1);
      next.state_digest = next.result_digest = {};
      next.turns.push_back(
          {next.view_id, next.base_step, rng_.next() | 1, view::Turn::Kind::rollback});
      break;
    default:  // it alone votes from now on
      next.acceptors = {self_};
      next.tie = self_;
  }
  return next;
}

void Liar::note(const job::JobMessage& message) {
  if (const auto* vote = std::get_if<job::Vote>(&message.body))
    if (const auto* promise = std::get_if<view::Promise>(&vote->message))
      if (promise->standing.order) orders_.push_back(*promise->standing.order);
  const auto* notice = std::get_if<job::ViewNotice>(&message.body);
  if (!notice) return;
  const view::View& told = notice->chain.back().view;
  const NodeId alone[] = {self_};
  for (const view::DecidedView& one : notice->chain)
    decides_alone_ = decides_alone_ || view::is_quorum(one.view, alone);
  const bool newer = newest_.empty() || told.view_id > newest_.back().view.view_id;
  if (newer || rng_.chance(0.1)) newest_ = notice->chain;
  for (const view::DecidedView& one : notice->chain)
    for (const view::Seal& seal : one.seals) seen_.push_back(seal);
  if (seen_.size() > 64) seen_.erase(seen_.begin(), seen_.end() - 64);
  for (const view::Member& one : told.members)
    if (std::ranges::find(nodes_, one.node) == nodes_.end()) nodes_.push_back(one.node);
}

job::JobMessage Liar::said(job::JobBody body) const {
  const view::View& view = newest_.back().view;
  return {view.job, view.name(), 1, std::move(body)};
}

// Its own, somebody else's as far as it can sign that, or what was ordered once.
view::SignedOrder Liar::forged_order() {
  view::SignedOrder order =
      view::order_of(newest_.empty() ? JobId{} : newest_.back().view.job, self_,
                     static_cast<view::OrderKind>(1 + rng_.below(3)),
                     static_cast<std::int64_t>(rng_.below(1000)), rng_.below(total_steps_));
  if (rng_.chance(0.5)) order.by = kOwner;
  if (!orders_.empty() && rng_.chance(0.3)) {
    order = orders_[rng_.below(orders_.size())];
    if (rng_.chance(0.5)) order.issued += 1 + static_cast<std::int64_t>(rng_.below(100));
  }
  return order;
}

NodeId Liar::somebody() {
  return rng_.chance(0.3) ? self_ : nodes_[rng_.below(nodes_.size())];
}

// Another number, other members, another history, another state than anybody has agreed on.
view::View Liar::forged_view() {
  view::View next = newest_.back().view;
  next.previous = next.digest();
  next.view_id += rng_.chance(0.6) ? 1 : 1 + rng_.below(std::uint64_t{1} << 20);
  if (rng_.chance(0.5)) {
    next.members = {{self_, 1}};
    next.acceptors = {self_};
    next.tie = self_;
    next.plan.assign(next.plan.size(), 0);
  }
  if (rng_.chance(0.5)) next.base_step = rng_.below(total_steps_ + 1);
  if (rng_.chance(0.5)) next.state_digest = next.result_digest = {rng_.next(), rng_.next()};
  if (rng_.chance(0.5)) next.sync_sources = {self_};
  if (rng_.chance(0.3)) next.stopped = !next.stopped;
  if (rng_.chance(0.5)) next.order = forged_order();
  if (next.order && rng_.chance(0.5)) next.order->kind = view::OrderKind::recover;
  if (rng_.chance(0.5))
    next.turns.push_back({rng_.chance(0.7) ? next.view_id : 1, next.base_step, rng_.next() | 1,
                          static_cast<view::Turn::Kind>(rng_.below(3))});
  return next;
}

// Its own is true; of others it has only what they have signed once, and what it makes up.
view::Seal Liar::seal_of(const NodeId& node, const view::DecidedView& decided) {
  const view::View& before = newest_.back().view;
  const Bytes vote = view::vote_bytes(decided.ballot, before, decided.view);
  const std::string_view purpose = decided.is_split() ? view::kSplitPurpose : view::kVotePurpose;
  view::Seal seal{node, view::TwinSigner(self_).sign(purpose, vote)};
  if (node == self_ || rng_.chance(0.5)) return seal;
  for (const view::Seal& one : seen_)
    if (one.node == node) seal = one;
  return seal;
}

job::JobBody Liar::forged_notice() {
  const view::View& before = newest_.back().view;
  view::DecidedView decided{
      forged_view(), {1 + rng_.below(5), self_}, before.acceptors, before.tie, {}};
  if (rng_.chance(0.2)) decided.voters = {self_}, decided.tie = self_;
  if (decided.is_split()) {
    decided.seals.push_back(seal_of(somebody(), decided));
  } else {
    for (const NodeId& voter : decided.voters)
      if (voter == self_ || rng_.chance(0.8)) decided.seals.push_back(seal_of(voter, decided));
  }
  view::ViewChain told;
  if (rng_.chance(0.5)) told = newest_;
  told.push_back(std::move(decided));
  return job::ViewNotice{std::move(told)};
}

// The job is finished, and here is its result.
std::vector<job::JobMessage> Liar::false_end() {
  const Bytes state(state_bytes_, static_cast<std::byte>(1 + rng_.below(255)));
  const Digest name = block_digest_of(state);
  return {said(job::StepStatus{total_steps_, true, true, 0, name}),
          said(job::StateMeta{total_steps_, state_bytes_, name, {1, 1}, {}}),
          said(job::StatePart{name, 0, SharedBytes::from(state)})};
}

job::JobBody Liar::small_lie() {
  const std::uint64_t step = rng_.below(total_steps_ + 1);
  const view::Ballot ballot{1 + rng_.below(9), self_};
  switch (rng_.below(9)) {
    case 0:
      return job::FreezeHint{"a lie", {somebody(), somebody()}};
    case 1:
      return job::Vote{view::Prepare{ballot, ""}};
    case 2:
      return job::Vote{view::Accept{ballot, forged_view()}};
    case 3:
      return job::Vote{view::Accepted{ballot, {}}};
    case 4:
      return job::StateMeta{step, rng_.next(), {rng_.next(), 1}, {1, 1}, {}};
    case 5:
      return job::StepMessage{step, {1, 1}, collective::Done{{rng_.next(), 1}, {}, {}}};
    case 6:
      return job::LeaseGrant{Time{}, true, true, {{}, step}};
    case 7:
      return job::Vote{view::NoteFloor{{{newest_.back().view.history(), step}, {self_}}}};
    default:
      return job::ResultPart{step, 0, {1, 1}, {}, SharedBytes::from(Bytes(8))};
  }
}

std::vector<job::JobMessage> Liar::lies() {
  if (newest_.empty() || decides_alone_) return {};
  if (won_ && rng_.chance(0.5)) {
    view::ViewChain told = newest_;
    told.push_back(*won_);
    return {said(job::ViewNotice{std::move(told)})};
  }
  // A member's word on the job's end and on steps is believed (PROTOCOL.md): what it cannot do is
  // make a view.
  if (has_part_ || rng_.chance(0.6)) return {said(forged_notice())};
  if (rng_.chance(0.3)) return false_end();
  return {said(small_lie())};
}

}  // namespace gpunode::sim
