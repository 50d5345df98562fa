// Who may come in: makes join tokens, answers strangers at the join port, relays their requests to
// the issuer of their token, and spreads admission records to all members. All rules are in
// runtime/security; this actor moves frames and keeps time. The one writer of the allow-list and of
// the audit log; it tells peers how far that has come. What it tells them of who may be here:
// credential_news.hpp.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <memory>

#include "actors/cluster_state.hpp"
#include "actors/inference/http_audit.hpp"
#include "actors/messages.hpp"
#include "actors/node/shut_outs.hpp"
#include "runtime/security/audit_witness.hpp"
#include "runtime/security/join_server.hpp"
#include "runtime/security/offenders.hpp"
#include "runtime/security/refusal_counts.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct AdmissionOptions {
  security::Identity* identity = nullptr;  // whose link key this actor alone changes and looks at
  storage::FileSystem* files = nullptr;
  storage::Path state_directory;
  security::Admissions* admissions = nullptr;
  std::shared_ptr<security::TokenBook> tokens;
  std::shared_ptr<security::AuditLog> audit;
  std::shared_ptr<security::AuditWitness> witness;
  std::shared_ptr<security::RefusalCounts> refusals;
  std::string name;
  std::shared_ptr<transport::Link> link;
  const ClusterState* cluster = nullptr;
  caf::actor cluster_actor;  // gets AdmissionsChanged
  IpRanges dial_too;         // where joiners may be dialled back, beside where they come from
  const Clock* clock = nullptr;
  std::shared_ptr<inference::HttpAudit> http_audit = {};  // null: there is no front
  std::shared_ptr<security::Offenders> offenders;
  std::shared_ptr<ShutOuts> shut_outs;
};

// A frame of a stranger at the join port; `reply` answers it, once.
struct JoinKnock {
  std::string address;
  Bytes frame;
  std::function<void(Bytes)> reply;
};

caf::actor spawn_admission(caf::actor_system& system, AdmissionOptions options);

}  // namespace gpunode::node
