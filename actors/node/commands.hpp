// The commands of a running node that no single actor owns: who am I, who is here, what computes.
#pragma once

#include <functional>
#include <string>

#include "actors/cluster_state.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/health/verdict_policy.hpp"
#include "actors/node/entry.hpp"

namespace gpunode::node {

// Where programs that know nothing but HTTP find this node; empty: nowhere.
struct HttpEndpoints {
  std::string metrics, inference;
};
std::string node_info_json(const Entry& entry, const ClusterSnapshot& cluster,
                           const HttpEndpoints& http);
std::string devices_json(const compute::DeviceRoster& devices);
// "device.drain" and "device.resume".
std::string order_device(compute::DeviceRoster& devices, const std::string& name,
                         const std::string& arguments);
// What takes a health verdict to the devices it is about, and tells the log what became of them.
// `devices` outlives it.
std::function<void(const health::Verdict&)> drain_by_verdict(compute::DeviceRoster& devices);
std::string nodes_json(const Entry& entry, const ClusterSnapshot& cluster, Time now,
                       const HttpEndpoints& http);

}  // namespace gpunode::node
