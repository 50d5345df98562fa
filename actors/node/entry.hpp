// How a process becomes a member: state directory, keys, boot number, doors (link and join port),
// then the cluster, which it goes on with, joins by a token, or founds. Nothing of it is an actor;
// it happens once, in order, before the actors start, and fails with a cause and a remedy.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/inference/http_audit.hpp"
#include "actors/node/advertised.hpp"
#include "actors/node/cluster_actor.hpp"
#include "actors/node/node_parts.hpp"
#include "actors/node/router.hpp"
#include "actors/node/shut_outs.hpp"
#include "runtime/security/admission.hpp"
#include "runtime/security/audit_log.hpp"
#include "runtime/security/audit_witness.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/security/join_token.hpp"
#include "runtime/security/offenders.hpp"
#include "runtime/security/refusal_counts.hpp"
#include "runtime/storage/state_directory.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::node {

// Where founding writes the cluster's recovery key, in the state directory.
inline constexpr const char* kRecoveryKeyFile = "recovery.key";

// What its links prove a node by.
transport::LinkKeys link_keys_of(const security::Identity& identity);

struct Entry {
  Entry(storage::StateDirectory directory, security::Identity keys)
      : state(std::move(directory)), identity(std::move(keys)) {}

  storage::StateDirectory state;
  security::Identity identity;
  Boot boot = 0;
  std::string name;
  std::unique_ptr<security::Admissions> admissions;
  // The allow-list as the link's threads see it; null until there is one.
  std::shared_ptr<std::atomic<security::Admissions*>> allowed;
  std::shared_ptr<security::TokenBook> tokens;
  std::shared_ptr<security::AuditLog> audit;
  std::shared_ptr<security::AuditWitness> witness;
  // Members that asked for what they may not, until the audit log has them.
  std::shared_ptr<security::RefusalCounts> refusals = std::make_shared<security::RefusalCounts>();
  std::shared_ptr<ShutOuts> shut_outs = std::make_shared<ShutOuts>();
  std::shared_ptr<security::Offenders> offenders;
  std::shared_ptr<inference::HttpAudit> http_audit;
  std::shared_ptr<transport::Link> link;
  std::unique_ptr<transport::JoinSocket> join_socket;
  Addresses addresses;  // at the start; what others are told now is in the cluster's snapshot
  // Those to be told from now on, if the machine's have changed; null: they are fixed.
  std::function<std::optional<Addresses>()> look_at_addresses;
  std::vector<membership::MemberRecord> seeds;

  membership::MemberRecord record(const NodeConfig& config) const;
  // What this node can prove and check. The entry and the clock outlive it.
  security::Authority authority(const Clock& clock) const;
  // What the cluster actor needs to drive membership and directory under this node's keys.
  ClusterActorOptions cluster_options(const NodeConfig& config, ClusterState& state_out,
                                      const Clock& clock) const;
};

// Node::check.
Result<void> check_config(const NodeConfig& config);

// `config`: one that check_config() takes.
Result<std::unique_ptr<Entry>> enter(const NodeConfig& config, const NodeParts& parts,
                                     Router& router);

}  // namespace gpunode::node
