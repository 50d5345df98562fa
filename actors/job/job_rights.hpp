// Who may do what with a job. It is its submitter's: the manifest carries the signature of the node
// that submitted it over all that was wished for, and stop, resume, recover and removal are orders
// signed by that node or by one that may operate. Whoever starts, hands on or obeys checks it; what
// is on a node's own disk was checked before. Pure, but for the signatures.
#pragma once

#include "actors/cluster_state.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/view/signed_order.hpp"

namespace gpunode::jobs {

using security::Authority;
using security::WallTime;

// Makes this node the job's owner; nothing of what was wished for may change after it.
void sign_as_owner(const Authority& authority, job::JobSpec& spec);

// Whether the job was submitted at this node: nobody else can sign so.
bool is_own(const Authority& authority, const job::JobSpec& spec);

// Whether the owner may submit jobs, and has wished for this one. Fails with permission_denied.
Result<void> check_owner(const Authority& authority, const ClusterSnapshot& cluster,
                         const job::JobSpec& spec);

// The owner's, where it may still submit, and of those that operate. Fails with permission_denied,
// which names them.
Result<void> may_order(const Authority& authority, const ClusterSnapshot& cluster,
                       const std::string& name, const NodeId& owner, const NodeId& by);
// Besides them those that observe, and those that were to take part from the start.
Result<void> may_read(const Authority& authority, const ClusterSnapshot& cluster,
                      const job::JobSpec& spec, const NodeId& by);

// `wanted` with this node as who orders it, now. A removal holds as long as nodes may be away.
view::SignedOrder signed_order(const Authority& authority, view::SignedOrder wanted, WallTime now);

// Whether the order is of this job, not expired (`now`; none: others have acted on it when it was
// not), and signed by who may give it. Fails with permission_denied.
Result<void> check_order(const Authority& authority, const ClusterSnapshot& cluster,
                         const job::JobSpec& spec, const JobId& id, const view::SignedOrder& order,
                         std::optional<WallTime> now);

}  // namespace gpunode::jobs
