#include "actors/node/commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "actors/health/health_actor.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/security/rights.hpp"

namespace gpunode::node {
using nlohmann::json;

std::string node_info_json(const Entry& entry, const ClusterSnapshot& cluster,
                           const HttpEndpoints& http) {
  const NodeInfo own = cluster.own() ? *cluster.own() : NodeInfo{};
  return ok_json({{"id", entry.identity.id().text()},
                  {"name", entry.name},
                  {"boot", entry.boot},
                  {"pid", getpid()},
                  {"endpoints", own.endpoints},
                  {"join_endpoints", own.join_endpoints},
                  {"dial_only", entry.addresses.dial_only},
                  {"metrics", http.metrics},
                  {"http", http.inference},
                  {"state_directory", entry.state.path().string()}});
}

std::string devices_json(const compute::DeviceRoster& devices) {
  json list = json::array();
  for (const auto& device : devices.devices()) {
    const ops::Backend& backend = device->backend();
    const auto status = device->status();
    json line = {{"device", device->id()},
                 {"name", backend.device().name},
                 {"instruction_set", backend.capabilities().instruction_set},
                 {"library", backend.capabilities().library},
                 {"state", compute::to_string(status.condition)},
                 {"used_by", status.users}};
    if (backend.capabilities().memory_bytes > 0)
      line["memory_bytes"] = backend.capabilities().memory_bytes;
    if (!device->pci_bus_id().empty()) line["pci_bus_id"] = device->pci_bus_id();
    if (!status.reason.empty()) line["reason"] = status.reason;
    if (!status.warning.empty()) line["warning"] = status.warning;
    list.push_back(std::move(line));
  }
  return ok_json({{"devices", std::move(list)}});
}

std::string order_device(compute::DeviceRoster& devices, const std::string& name,
                         const std::string& arguments) {
  const auto device = field<std::string>(arguments_of(arguments), "device", "");
  const auto done = name == "device.drain" ? devices.drain(device) : devices.resume(device);
  if (!done) return error_json(done.error());
  return devices_json(devices);
}

std::function<void(const health::Verdict&)> drain_by_verdict(compute::DeviceRoster& devices) {
  return [&devices](const health::Verdict& verdict) {
    for (const std::string& news : devices.judge(verdict.pci_bus_id.value_or(""), verdict.reason))
      if (verdict.drain)
        log::warning("health", news);
      else
        log::info("health", news);
  };
}

namespace {
bool is_put_out(const security::AdmissionSnapshot& admitted, const NodeId& node) {
  const security::Standing* standing = admitted.find(node);
  return standing && standing->revoked;
}
}  // namespace

std::string nodes_json(const Entry& entry, const ClusterSnapshot& cluster, Time now,
                       const HttpEndpoints& http) {
  const auto admitted = entry.admissions->snapshot();
  json nodes = json::array();
  for (const NodeInfo& node : cluster.nodes) {
    json line = {{"id", node.id.text()},
                 {"name", node.name},
                 {"health", to_string(node.health)},
                 {"put_out", is_put_out(*admitted, node.id)},
                 {"self", node.self},
                 {"endpoints", node.endpoints},
                 {"join_endpoints", node.join_endpoints},
                 {"roles", security::to_text(node.rights)},
                 {"labels", node.labels}};
    if (node.self && !http.metrics.empty()) line["metrics"] = http.metrics;
    if (node.self && !http.inference.empty()) line["http"] = http.inference;
    if (node.since != Time{})
      line["since_seconds"] = std::chrono::duration<double>(now - node.since).count();
    for (const DirectoryEntry& entry : cluster.entries)
      if (entry.owner == node.id && entry.key == health::kHealthKey)
        line["health_report"] = arguments_of(std::string(as_text(entry.value)));
    nodes.push_back(std::move(line));
  }
  json told = {{"nodes", nodes}};
  if (const auto out = entry.shut_outs->put_out(cluster)) told["shut_out"] = out->detail;
  return ok_json(told);
}

}  // namespace gpunode::node
