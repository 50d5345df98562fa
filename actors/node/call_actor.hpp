// Calls between nodes: what one node publishes under a name, every node can call. Finds the live
// replicas of a name in the directory, sends the request to one of them, and tries another one
// within the deadline when that one dies or is away. Every request gets exactly one answer or a
// definite error. Requests and answers travel as shared buffers, without a copy on the way out.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include "actors/cluster_state.hpp"
#include "actors/messages.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct CallActorOptions {
  NodeId self;
  std::shared_ptr<transport::Link> link;
  const ClusterState* cluster = nullptr;
  const Clock* clock = nullptr;
  caf::actor directory_writer;  // gets SetEntry
  std::uint64_t seed = 0;
  telemetry::Registry* metrics = nullptr;
};

// Key in the directory under which a published name is listed.
std::string service_key(const std::string& name);

caf::actor spawn_calls(caf::actor_system& system, CallActorOptions options);

}  // namespace gpunode::node
