#include "actors/node/commands.hpp"

#include <unistd.h>

#include "actors/health/health_actor.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::node {
using nlohmann::json;

std::string node_info_json(const Entry& entry) {
  return ok_json({{"id", entry.identity.id().text()},
                  {"name", entry.name},
                  {"boot", entry.boot},
                  {"pid", getpid()},
                  {"endpoints", entry.addresses.control},
                  {"join_endpoints", entry.addresses.join},
                  {"dial_only", entry.addresses.dial_only},
                  {"state_directory", entry.state.path().string()}});
}

std::string nodes_json(const ClusterSnapshot& cluster, Time now) {
  json nodes = json::array();
  for (const NodeInfo& node : cluster.nodes) {
    json line = {{"id", node.id.text()},
                 {"name", node.name},
                 {"health", to_string(node.health)},
                 {"self", node.self},
                 {"endpoints", node.endpoints},
                 {"join_endpoints", node.join_endpoints},
                 {"labels", node.labels}};
    if (node.since != Time{})
      line["since_seconds"] = std::chrono::duration<double>(now - node.since).count();
    for (const DirectoryEntry& entry : cluster.entries)
      if (entry.owner == node.id && entry.key == health::kHealthKey)
        line["health_report"] = arguments_of(std::string(as_text(entry.value)));
    nodes.push_back(std::move(line));
  }
  return ok_json({{"nodes", nodes}});
}

}  // namespace gpunode::node
