// What the next view is, by what the promisers told and who else was heard of; and whether the one
// that another node proposes is just that.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kHeardFor = std::chrono::seconds(10);
}  // namespace

// By the rules of the job alone: alike at every node.
Result<view::View> JobCore::State::propose(ProposalRules rules, Promisers heard,
                                           const view::Hearsay& hearsay) const {
  rules.tree = job.options.tree;
  rules.wanted_nodes = job.options.wanted_nodes;
  rules.min_nodes = job.options.min_nodes;
  rules.total_steps = job.options.total_steps;
  rules.witnesses = hearsay.witnesses;
  for (const NodeId& node : rules.put_out) {
    std::erase(rules.witnesses, node);
    std::erase_if(heard, [&](const view::Promiser& one) { return one.node == node; });
  }
  for (view::Promiser& one : heard) {
    const auto& barred = hearsay.barred;
    const bool is_barred = std::find(barred.begin(), barred.end(), one.node) != barred.end();
    if (is_barred && !one.standing.has_memory) one.standing.leaving = true;
    one.standing.lease_left = std::min(one.standing.lease_left, job.options.timings.lease_term);
  }
  Result<view::View> next = propose_view(rules, job.view(), heard, hearsay.joining);
  if (next && !fits_job(*next))
    return Error{ErrorCode::unavailable, "what the promises tell leads to no view of this job"};
  return next;
}

view::Hearsay JobCore::State::hearsay(const Promisers& promisers) const {
  view::Hearsay heard;
  // Of this view's witnesses those that promised, then who offers itself.
  for (const NodeId& node : witnesses.candidates()) {
    const bool promised = std::any_of(promisers.begin(), promisers.end(),
                                      [&](const auto& one) { return one.node == node; });
    if (promised || !job.view().is_witness(node)) heard.witnesses.push_back(node);
  }
  heard.joining = joiners.joining(donor.results_from());
  for (const view::Promiser& one : promisers)
    if (joiners.is_barred(one.node)) heard.barred.push_back(one.node);
  return heard;
}

Result<view::View> JobCore::State::compose(const Promisers& promisers, const view::Hearsay& hearsay,
                                           bool forced) const {
  const view::View& view = job.view();
  ProposalRules rules;
  rules.put_out = put_out();
  if (forced) {
    const Digest origin = view.digest();
    const std::uint64_t self = mix(digest_of(job.self().value).low, job.options.self.boot);
    rules.split_mark = mix(origin.low, mix(self, job.agreement.votes().promised.round)) | 1;
    rules.split_kind = split_order ? view::Turn::Kind::ordered : view::Turn::Kind::split;
    rules.order = split_order;
  }
  Promisers heard = promisers;
  for (view::Promiser& one : heard)
    if (one.standing.order && !counts(*one.standing.order)) one.standing.order.reset();
  Result<view::View> next = propose(std::move(rules), heard, hearsay);
  const bool undoes = next && !forced && next->restores && view.view_id > 0;
  if (!undoes) return next;
  if (job.takes_result)
    return Error{ErrorCode::unavailable, "the job is finished: this node fetches its result"};
  if (Result<void> nobody = nobody_may_answer(heard, *next); !nobody) return nobody.error();
  return next;
}

// How long the leases of others last is for each of those that vote to look at: where a quorum has
// granted one, and a quorum finds none of its own left, none is left.
bool JobCore::State::follows(const Promisers& promisers, const view::Hearsay& hearsay,
                             const view::View& next, bool fresh) const {
  Promisers heard = promisers;
  for (view::Promiser& one : heard) {
    one.standing.lease_left = &one == &heard.front() ? lease.granted() : Duration{};
    auto& order = one.standing.order;
    if (!order) continue;
    const bool taken = order == next.order;  // others may have voted for it when it was in time
    const bool heeded =
        taken ? job.may_order(*order, view::OrderUse::agreed).has_value() : fresh && counts(*order);
    if (!heeded) order.reset();
  }
  if (!may_put_out(next.put_out, fresh)) return false;
  ProposalRules rules;
  rules.put_out = next.put_out;
  const Result<view::View> expected = propose(std::move(rules), std::move(heard), hearsay);
  return expected && *expected == next;
}

// A member that was heard a moment ago may answer yet, and then nothing need be undone; and who had
// no part in the job may have a copy of what its holders have lost. Waiting for it is a courtesy
// that ends: it may be heard and yet be deaf for good.
Result<void> JobCore::State::nobody_may_answer(const Promisers& heard,
                                               const view::View& next) const {
  if (job.now >= job.agreement.wanted_since() + kHeardFor) return {};
  const std::uint64_t durable = floor_of(job.view(), heard).name.step;
  if (next.base_step < durable && !broken("undoes_at_once") &&
      !orders.wants(view::OrderKind::resume_from))
    return Error{ErrorCode::unavailable, "every known copy of the durable checkpoint of step " +
                                             std::to_string(durable) +
                                             " is lost: waiting a moment for who may have another"};
  for (const view::Member& one : job.view().members) {
    const bool lives = one.node != job.self() && !job.gone(one.node) &&
                       job.heard_within(one.node, job.options.timings.lease_term);
    const bool told = std::any_of(heard.begin(), heard.end(),
                                  [&](const auto& other) { return other.node == one.node; });
    if (lives && !told)
      return Error{ErrorCode::unavailable,
                   "waiting for node " + one.node.short_text() + ", which was heard a moment ago"};
  }
  return {};
}

}  // namespace gpunode::job
