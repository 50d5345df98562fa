// Leases of small jobs: where the members alone are no quorum, others may go on from a checkpoint
// without them. So a member commits only while a quorum's word holds that nobody does so yet. Each
// member asks all acceptors again and again; its lease counts from when it asked, theirs from when
// they answered, and it is shorter by a margin, so it always ends first. Who has promised grants
// nothing more, tells how much is left, and the proposer of a rollback waits for the longest.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kAskAgain = std::chrono::milliseconds(50);  // while there is no lease
}  // namespace

bool JobCore::State::holds_lease(Time at) const {
  if (!needs_lease()) return true;
  if (broken("outlives_lease")) return lease_until != Time{};
  return at < lease_until;
}

// Whether all that earlier inputs committed was committed while nobody else went on.
bool JobCore::State::may_report(Time at) const {
  if (!is_of_history()) return false;
  return !member || !needs_lease() || (!agreement.frozen() && holds_lease(at));
}

// As it follows from the grants: the latest time at which a quorum was asked that has answered.
Time JobCore::State::lease_end(Time at) const {
  std::vector<std::pair<Time, NodeId>> asked;
  if (agreement.view().is_acceptor(options.self.node)) asked.emplace_back(at, options.self.node);
  for (const auto& [node, grant] : grants) asked.emplace_back(grant.asked, node);
  std::sort(asked.rbegin(), asked.rend());
  std::vector<NodeId> granted;
  for (const auto& [when, node] : asked) {
    granted.push_back(node);
    if (view::is_quorum(agreement.view(), granted))
      return when + options.timings.lease_term - options.timings.lease_margin;
  }
  return Time{};
}

Duration JobCore::State::lease_granted(Time at) const {
  return std::max(Duration{}, granted_until - at);
}

// A view was installed. What this node asked for is void; what it has granted is not: who was left
// out of the view may still go by it.
void JobCore::State::end_leases() {
  grants.clear();
  lease_asked = Time{};
  if (!broken("lease_outlives_view")) lease_until = Time{};
  if (broken("grants_end_with_view")) granted_until = Time{};
}

void JobCore::State::lease_tick(Time at, Actions& out) {
  if (may_report(at)) reported = committed;
  if (!member || agreement.frozen()) return;
  watch_durable(at, out);
  // After the last step nothing is committed any more, but its checkpoint is to become durable.
  const bool needs = needs_lease() && !finish_told, holds = !needs || holds_lease(at);
  const bool asks = needs || options.checkpoint.name() > durable.name;
  const Duration every = holds ? options.timings.lease_every : kAskAgain;
  if (asks && (lease_asked == Time{} || at >= lease_asked + every)) {
    lease_asked = at;
    const Checkpoint& newest = needs_lease() ? offered : options.checkpoint;
    const LeaseAsk ask{at, newest.name(), newest.state_digest};
    for (const NodeId& node : peers_of(agreement.view())) send(node, ask, out);
  }
  if (holds || agreement.wanted() || agreement.view().stopped || !state_ready) return;
  if (at >= std::max(lease_until, installed_at) + options.timings.stall)
    change_view(at, "no quorum renews the lease of its members", out);
}

void JobCore::State::on_lease_ask(Time at, const NodeId& from, const JobMessage& message,
                                  const LeaseAsk& ask, Actions& out) {
  const view::View& view = agreement.view();
  const bool promised = agreement.frozen() && !broken("grants_after_promise");
  if (promised || !view.has_member({from, message.boot})) return;
  LeaseGrant grant{ask.asked, needs_lease() && view.is_acceptor(options.self.node),
                   !options.witness_only, options.checkpoint.name()};
  if (grant.granted) granted_until = at + options.timings.lease_term;
  send(from, grant, out);
  if (needs_lease()) on_copy_offer(at, ask, out);
}

void JobCore::State::on_lease_grant(Time at, const NodeId& from, const LeaseGrant& grant,
                                    Actions& out) {
  if (!member || agreement.frozen() || grant.asked > lease_asked) return;  // not ours
  LeaseGrant& told = told_copies[from];
  if (grant.asked >= told.asked) told = grant;
  if (grant.granted && agreement.view().is_acceptor(from)) {
    LeaseGrant& known = grants[from];
    known.asked = std::max(known.asked, grant.asked);
    known.checkpoint = std::max(known.checkpoint, grant.checkpoint);
    lease_until = std::max(lease_until, lease_end(at));
  }
  watch_durable(at, out);
  if (needs_lease() && holds_lease(at)) advance(at, out);
}

}  // namespace gpunode::job
