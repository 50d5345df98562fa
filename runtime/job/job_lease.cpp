// Leases of small jobs: where the members alone are no quorum, others may go on from a checkpoint
// without them. So a member commits only while a quorum's word holds that nobody does so yet. Each
// member asks all acceptors again and again; its lease counts from when it asked, theirs from when
// they answered, and it is shorter by a margin, so it always ends first. Who has promised grants
// nothing more, tells how much is left, and the proposer of a rollback waits for the longest.
#include <algorithm>

#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kAskAgain = std::chrono::milliseconds(50);  // while there is no lease
}  // namespace

bool JobCore::State::holds_lease(Time at) const {
  if (!needs_lease()) return true;
  if (options.mutations.outlives_lease) return lease_until != Time{};
  return at < lease_until;
}

// Whether all that earlier inputs committed was committed while nobody else went on.
bool JobCore::State::may_report(Time at) const {
  if (!is_of_lineage()) return false;
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

// A view was installed: what was granted in the one before binds nobody any more.
void JobCore::State::end_leases() {
  grants.clear();
  lease_asked = lease_until = granted_until = Time{};
}

void JobCore::State::lease_tick(Time at, Actions& out) {
  if (may_report(at)) reported = committed;
  if (!member || !needs_lease() || agreement.frozen() || finish_told) return;
  const bool holds = holds_lease(at);
  if (holds) note_durable(out);
  if (lease_asked == Time{} ||
      at >= lease_asked + (holds ? options.timings.lease_every : kAskAgain)) {
    lease_asked = at;
    const LeaseAsk ask{at, offered.name(), offered.state_digest};
    for (const NodeId& node : agreement.view().acceptors) send(node, ask, out);
  }
  if (holds || agreement.wanted() || agreement.view().stopped || !state_ready) return;
  if (at >= std::max(lease_until, installed_at) + options.timings.stall)
    change_view(at, "no quorum renews the lease of its members", out);
}

void JobCore::State::on_lease_ask(Time at, const NodeId& from, const JobMessage& message,
                                  const LeaseAsk& ask, Actions& out) {
  const view::View& view = agreement.view();
  const bool promised = agreement.frozen() && !options.mutations.grants_after_promise;
  if (!needs_lease() || promised || !view.is_acceptor(options.self.node) ||
      !view.has_member({from, message.boot}))
    return;
  granted_until = at + options.timings.lease_term;
  send(from, LeaseGrant{ask.asked, options.checkpoint.name()}, out);
  on_copy_offer(at, ask, out);
}

void JobCore::State::on_lease_grant(Time at, const NodeId& from, const LeaseGrant& grant,
                                    Actions& out) {
  if (!member || agreement.frozen() || !agreement.view().is_acceptor(from)) return;
  if (grant.asked > lease_asked) return;  // not ours
  LeaseGrant& known = grants[from];
  known.asked = std::max(known.asked, grant.asked);
  known.checkpoint = std::max(known.checkpoint, grant.checkpoint);
  lease_until = std::max(lease_until, lease_end(at));
  if (!holds_lease(at)) return;
  note_durable(out);
  advance(at, out);
}

// The newest checkpoint that a quorum has: whatever quorum promises next knows of it.
void JobCore::State::note_durable(Actions& out) {
  const view::View& view = agreement.view();
  std::map<NodeId, view::CheckpointName> held{{options.self.node, options.checkpoint.name()}};
  for (const auto& [node, grant] : grants) held[node] = grant.checkpoint;
  const auto holders_of = [&](const view::CheckpointName& name) {
    std::vector<NodeId> nodes;
    for (const auto& [node, newest] : held)
      if (view.is_acceptor(node) && newest >= name) nodes.push_back(node);
    return nodes;
  };
  view::CheckpointName newest = std::max(durable, view.durable);
  const view::CheckpointName before = newest;
  for (const auto& [node, name] : held)
    if (name > newest && name.step <= committed && view::is_quorum(view, holders_of(name)))
      newest = name;
  durable = newest;
  holders = static_cast<std::uint32_t>(holders_of(durable).size());
  if (durable != before)
    report("checkpoint of step " + std::to_string(durable.step) + " is on " +
               std::to_string(holders) + " nodes: it outlives this one",
           out);
}

}  // namespace gpunode::job
