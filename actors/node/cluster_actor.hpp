// Who is here and what they offer: drives runtime/membership and runtime/directory with messages,
// link events and time, keeps the link's peers in step with them, and tells the other actors when a
// peer's health changes. The one writer of ClusterState. Remembers the last known peers on disk, so
// that a restarted node finds the cluster again without anybody's help.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/messages.hpp"
#include "actors/node/advertised.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/membership/swim.hpp"
#include "runtime/security/offenders.hpp"
#include "runtime/security/refusal_counts.hpp"
#include "runtime/security/rights.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct Admitted {
  std::array<std::byte, 32> curve_key{};
  security::Rights rights = 0;
  bool operator==(const Admitted&) const = default;
};

struct ClusterActorOptions {
  membership::MemberRecord self;
  membership::SwimConfig swim;
  membership::RecordSigning record_signing;
  directory::DirectorySigning directory_signing;
  std::vector<membership::MemberRecord> seeds;
  // All nodes that may be here, this one included: they may open a session before we know where
  // they are. Whoever is not among them is put out.
  std::function<std::map<NodeId, Admitted>()> admitted;
  std::function<std::optional<Admitted>(const NodeId& node)> admitted_as;  // one of them, or nobody
  // Asked every few seconds: where this node is to be reached from now on, if that has changed.
  // Null: it does not change.
  std::function<std::optional<Addresses>()> look_at_addresses;
  std::shared_ptr<transport::Link> link;
  ClusterState* state = nullptr;
  const Clock* clock = nullptr;
  std::shared_ptr<security::Offenders> offenders;  // told of them, and asked whom to put off
  std::shared_ptr<security::RefusalCounts> refusals;
  // Told once: `state` shows all that one live node knows of what is offered.
  std::function<void()> on_caught_up;
  std::uint64_t seed = 0;
  // Keeps the records of known peers on disk; called when they change, at most once a second.
  std::function<void(const std::vector<membership::MemberRecord>&)> store_peers;
};

// Subscribe{actor}: gets PeerChanged and LinkChanged from now on, and PeerChanged of all peers that
// are known already.
struct Subscribe {
  caf::actor subscriber;
};
// The router knows all actors now, so that no event of the link is lost: contact the others.
struct Begin {};
// What counts of these nodes has changed; of any, where none is named.
struct AdmissionsChanged {
  std::vector<NodeId> nodes;
};

caf::actor spawn_cluster(caf::actor_system& system, ClusterActorOptions options);

}  // namespace gpunode::node
