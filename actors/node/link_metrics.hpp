// What went over this node's links, as gauges of `gpunode metrics`. Read when somebody asks.
#pragma once

#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

void record_links(telemetry::Registry& metrics, const transport::Link& link);

}  // namespace gpunode::node
