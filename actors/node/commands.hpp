// The commands of a running node that no single actor owns: who am I, who is here, how
// much of everything.
#pragma once

#include <string>

#include "actors/cluster_state.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/node/entry.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::node {

std::string node_info_json(const Entry& entry);
std::string devices_json(const compute::DeviceRoster& devices);
// "device.drain" and "device.resume".
std::string order_device(compute::DeviceRoster& devices, const std::string& name,
                         const std::string& arguments);
std::string nodes_json(const ClusterSnapshot& cluster, Time now);
// Every figure of this node as Prometheus reads it; those of the cluster and of the links are taken
// now.
std::string metrics_text(telemetry::Registry& metrics, const ClusterSnapshot& cluster,
                         const transport::Link& link);

}  // namespace gpunode::node
