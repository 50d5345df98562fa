#include "runtime/job/lease.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kAskAgain = std::chrono::milliseconds(50);  // while there is no lease
}  // namespace

void Lease::on_restart() {
  if (!broken("forgets_leases")) granted_until_ = job_.now + job_.options.timings.lease_term;
}

bool Lease::holds() const {
  if (!job_.needs_lease()) return true;
  if (broken("outlives_lease")) return until_ != Time{};
  return job_.now < until_;
}

bool Lease::may_report() const {
  if (!job_.is_of_history()) return false;
  return !job_.member || !job_.needs_lease() || (!job_.agreement.frozen() && holds());
}

std::uint64_t Lease::reported() const {
  return may_report() ? job_.progress.committed() : reported_;
}

// As it follows from the grants: the latest time at which a quorum was asked that has answered.
Time Lease::end() const {
  std::vector<std::pair<Time, NodeId>> asked;
  if (job_.view().is_acceptor(job_.self())) asked.emplace_back(job_.now, job_.self());
  for (const auto& [node, when] : granted_) asked.emplace_back(when, node);
  std::sort(asked.rbegin(), asked.rend());
  std::vector<NodeId> granted;
  for (const auto& [when, node] : asked) {
    granted.push_back(node);
    if (view::is_quorum(job_.view(), granted))
      return when + job_.options.timings.lease_term - job_.options.timings.lease_margin;
  }
  return Time{};
}

Duration Lease::granted() const {
  return std::max(Duration{}, granted_until_ - job_.now);
}

// What this node asked for is void; what it has granted is not: who was left out may still go by
// it, and the acceptors of this view need not be those that granted it.
void Lease::on_view(const view::View& before) {
  granted_.clear();
  asked_ = Time{};
  if (!broken("lease_outlives_view")) until_ = Time{};
  if (broken("grants_end_with_view")) granted_until_ = Time{};
  const view::View& view = job_.view();
  const bool left_out = std::any_of(before.members.begin(), before.members.end(),
                                    [&](const view::Member& one) { return !view.has_member(one); });
  if (view.left_out && left_out && !broken("forgets_who_was_left_out"))
    granted_until_ = std::max(granted_until_, job_.now + job_.options.timings.lease_term);
}

std::optional<std::string> Lease::on_tick(const Checkpoint& offered, bool tells, Actions& out) {
  if (may_report()) reported_ = job_.progress.committed();
  if (!job_.member || job_.agreement.frozen()) return std::nullopt;
  // After the last step nothing is committed any more, but its checkpoint is to become durable.
  const bool needs = job_.needs_lease() && !job_.finished, has = !needs || holds();
  const JobCore::Timings& timings = job_.options.timings;
  const Duration every = has ? timings.lease_every : kAskAgain;
  if ((needs || tells) && (asked_ == Time{} || job_.now >= asked_ + every)) {
    asked_ = job_.now;
    job_.send_all(LeaseAsk{job_.now, offered.name(), offered.state_digest}, out);
  }
  if (has || job_.agreement.wanted() || job_.view().stopped || !job_.state_ready)
    return std::nullopt;
  if (job_.now < std::max(until_, job_.installed_at) + timings.stall) return std::nullopt;
  return "no quorum renews the lease of its members";
}

std::optional<LeaseGrant> Lease::on_ask(const LeaseAsk& ask) {
  if (job_.agreement.frozen() && !broken("grants_after_promise")) return std::nullopt;
  const bool grants = job_.needs_lease() && job_.view().is_acceptor(job_.self());
  if (grants) granted_until_ = job_.now + job_.options.timings.lease_term;
  return LeaseGrant{ask.asked, grants, !job_.options.witness_only, job_.checkpoint.name()};
}

bool Lease::on_grant(const NodeId& from, const LeaseGrant& grant) {
  if (!job_.member || job_.agreement.frozen() || grant.asked > asked_) return false;
  if (grant.granted && job_.view().is_acceptor(from)) {
    Time& known = granted_[from];
    known = std::max(known, grant.asked);
    until_ = std::max(until_, end());
  }
  return true;
}

}  // namespace gpunode::job
