// What a collector reads of a node: the registry, in which the node's parts count, and the figures
// that are taken when they are asked for. Served over HTTP on loopback alone, as there is no key: who
// would read it from elsewhere puts a proxy that authenticates in front.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/checkpoint/newest_checkpoints.hpp"
#include "actors/cluster_state.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/http/server.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct MetricsSources {
  telemetry::Registry* registry = nullptr;
  const ClusterState* cluster = nullptr;
  const transport::Link* link = nullptr;
  checkpoint::NewestCheckpoints* checkpoints = nullptr;
  const Clock* clock = nullptr;
  std::string version;
};

// Every figure of this node in the Prometheus text format. Any thread.
std::string metrics_text(const MetricsSources& sources);

// Answers GET /metrics with what `text` gives. Fails with invalid_argument, already_exists, io_error.
Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address,
                                                    std::function<std::string()> text);

}  // namespace gpunode::node
