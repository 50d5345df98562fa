#include "actors/job/job_rights.hpp"

#include <algorithm>

namespace gpunode::jobs {
namespace {

constexpr std::string_view kOwnerPurpose = "job 1";
constexpr auto kOrderTerm = std::chrono::hours(1);
constexpr auto kRemovalTerm = std::chrono::hours(24 * 30);
// How far the clock of who orders may be ahead.
constexpr auto kClockMargin = std::chrono::minutes(10);

std::int64_t microseconds(security::WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

Error denied(std::string detail) {
  return {ErrorCode::permission_denied, std::move(detail)};
}

bool is_signed(const Authority& authority, const job::JobSpec& spec) {
  security::Signature signature{};
  if (spec.owner_signature.size() != signature.size()) return false;
  std::ranges::copy(spec.owner_signature, signature.begin());
  return authority.verify(spec.submitter, kOwnerPurpose, job::owned_bytes(spec), signature);
}

}  // namespace

void sign_as_owner(const Authority& authority, job::JobSpec& spec) {
  spec.submitter = authority.self;
  const auto signature = authority.sign(kOwnerPurpose, job::owned_bytes(spec));
  spec.owner_signature.assign(signature.begin(), signature.end());
}

bool is_own(const Authority& authority, const job::JobSpec& spec) {
  return spec.submitter == authority.self && is_signed(authority, spec);
}

Result<void> check_owner(const Authority& authority, const ClusterSnapshot& cluster,
                         const job::JobSpec& spec) {
  const std::string owner = cluster.name_of(spec.submitter);
  if (!authority.may(spec.submitter, security::kRightSubmit))
    return denied("job '" + spec.name + "' is of node " + owner +
                  ", which may not submit jobs: it has the roles " +
                  security::to_text(authority.rights(spec.submitter)));
  if (!is_signed(authority, spec))
    return denied("job '" + spec.name + "' is not as its owner, node " + owner + ", has signed it");
  return {};
}

Result<void> may_order(const Authority& authority, const ClusterSnapshot& cluster,
                       const std::string& name, const NodeId& owner, const NodeId& by) {
  if (authority.may(by, security::kRightOperate)) return {};
  if (by == owner && authority.may(by, security::kRightSubmit)) return {};
  return denied("node " + cluster.name_of(by) + " may not order what is done with job '" + name +
                "': its owner, node " + cluster.name_of(owner) +
                ", may, and nodes with the role operate (`gpunode nodes` shows them)");
}

Result<void> may_read(const Authority& authority, const ClusterSnapshot& cluster,
                      const job::JobSpec& spec, const NodeId& by) {
  constexpr security::Rights kReads = security::kRightObserve | security::kRightOperate;
  const auto& candidates = spec.candidates;
  if (by == spec.submitter || authority.may(by, kReads) ||
      std::ranges::find(candidates, by) != candidates.end())
    return {};
  return denied("node " + cluster.name_of(by) + " may not read the report of job '" + spec.name +
                "', in which it has no part: nodes with the role observe or operate may, and its "
                "owner, node " +
                cluster.name_of(spec.submitter));
}

view::SignedOrder signed_order(const Authority& authority, view::SignedOrder wanted, WallTime now) {
  const Duration term =
      wanted.kind == view::OrderKind::remove ? Duration(kRemovalTerm) : Duration(kOrderTerm);
  wanted.by = authority.self;
  wanted.issued = microseconds(now);
  wanted.expires =
      wanted.issued + std::chrono::duration_cast<std::chrono::microseconds>(term).count();
  wanted.signature = authority.sign(view::kOrderPurpose, wanted.signed_bytes());
  return wanted;
}

Result<void> check_order(const Authority& authority, const ClusterSnapshot& cluster,
                         const job::JobSpec& spec, const JobId& id, const view::SignedOrder& order,
                         std::optional<WallTime> now) {
  if (auto may = may_order(authority, cluster, spec.name, spec.submitter, order.by); !may) {
    if (authority.verify(order.by, view::kOrderPurpose, order.signed_bytes(), order.signature))
      authority.refused(order.by, "an order about job " + spec.name);
    return may;
  }
  const auto margin = std::chrono::duration_cast<std::chrono::microseconds>(kClockMargin).count();
  if (order.job != id) return denied("the order is about another job");
  if (!authority.verify(order.by, view::kOrderPurpose, order.signed_bytes(), order.signature))
    return denied("the order is not signed by node " + cluster.name_of(order.by));
  if (!now) return {};
  const std::int64_t today = microseconds(*now);
  if (today > order.expires || order.issued > today + margin)
    return denied("the order is of another time (" +
                  std::to_string((today - order.issued) / 1'000'000) +
                  " s ago by this node's clock): compare the clocks, and order it again");
  return {};
}

}  // namespace gpunode::jobs
