// `nodes`: who is in the cluster, how they fare, what they have and what they may; `node revoke`.
#include <algorithm>

#include "runtime/security/rights.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/recovery.hpp"
#include "tools/gpunode/tables.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// {"gpu":"a100","spot":""} as "gpu=a100,spot".
std::string labels_text(const json& labels) {
  std::string out;
  for (const auto& [key, value] : labels.items()) {
    if (!out.empty()) out += ",";
    out += key;
    if (value.is_string() && !value.get<std::string>().empty())
      out += "=" + value.get<std::string>();
  }
  return out;
}

// Unknown is not zero: what a node did not tell is "?".
std::string percent(const json& object, const char* key) {
  double share = field<double>(object, key, -1);
  return share < 0 ? "?" : decimal(100 * share, 0) + "%";
}
std::string bytes(const json& object, const char* key) {
  double count = field<double>(object, key, -1);
  return count < 0 ? "?" : human_bytes(count);
}

std::string gpus_text(const json& report) {
  json gpus = field<json>(report, "gpus", json());
  if (!gpus.is_array()) return "?";
  if (gpus.empty()) return "none";
  std::string out;
  for (const json& gpu : gpus) {
    std::string one = field<std::string>(gpu, "name", "GPU");
    if (field<bool>(gpu, "lost", false)) one += " (lost)";
    int load = field<int>(gpu, "utilization_percent", -1);
    if (load >= 0) one += " " + std::to_string(load) + "%";
    int degrees = field<int>(gpu, "temperature_celsius", -1000);
    if (degrees > -1000) one += " " + std::to_string(degrees) + "C";
    out += (out.empty() ? "" : ", ") + one;
  }
  return out;
}

// "tcp://10.0.0.1:7601" as "10.0.0.1:7601"; "-" for a node that only dials.
std::string places_of(const json& endpoints) {
  std::string out = joined(endpoints, ",");
  for (std::size_t at; (at = out.find("tcp://")) != std::string::npos;) out.erase(at, 6);
  return out.empty() ? "-" : out;
}

// "all" where it is all.
std::string roles_text(const std::string& roles) {
  if (roles == security::to_text(security::kAllRights)) return "all";
  std::string out = roles;
  for (std::size_t at; (at = out.find(", ")) != std::string::npos;) out.erase(at + 1, 1);
  return out;
}

std::vector<std::string> row_of(const json& node) {
  json report = object(node, "health_report");
  json host = object(report, "host");
  json drained = list(report, "drained");
  std::string health = field<bool>(node, "put_out", false) ? "put out" : word(node, "health");
  if (drained.is_array() && !drained.empty()) health += " (drained)";
  return {word(node, "name") + (field<bool>(node, "self", false) ? " (this one)" : ""),
          word(node, "id").substr(0, 8),
          health,
          human_duration(field<double>(node, "since_seconds", -1)),
          percent(host, "cpu_load"),
          bytes(host, "memory_available_bytes"),
          bytes(host, "disk_free_bytes"),
          gpus_text(report),
          roles_text(word(node, "roles")),
          labels_text(object(node, "labels")),
          places_of(list(node, "endpoints")),
          places_of(list(node, "join_endpoints"))};
}

// Where nobody but one could let others in and put them out, the cluster hangs on that one.
std::string rulers_text(const json& answer) {
  const auto rules = [](const json& node) {
    const std::string roles = word(node, "roles");
    return roles.find("admit") != std::string::npos && roles.find("operate") != std::string::npos;
  };
  const json nodes = list(answer, "nodes");
  if (nodes.size() < 2 || std::ranges::count_if(nodes, rules) != 1) return "";
  const auto one = std::ranges::find_if(nodes, rules);
  return "only " + word(*one, "name") +
         " may admit and operate: where it is lost, the recovery key alone helps (`gpunode cluster "
         "refound`); `gpunode token create --role all` there makes another one\n";
}

std::string drained_text(const json& node) {
  std::string out;
  json report = object(node, "health_report");
  json drained = list(report, "drained");
  for (const json& verdict : drained)
    out += word(node, "name") + ": " + field<std::string>(verdict, "subject", "node") +
           " is drained: " + word(verdict, "reason") + "\n";
  return out;
}

}  // namespace

std::string nodes_text(const json& answer) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "ID", "HEALTH", "SINCE", "CPU",
                                                 "MEMORY FREE", "DISK FREE", "GPUS", "ROLES",
                                                 "LABELS", "ADDRESS", "JOIN"}};
  std::string notes;
  for (const json& node : list(answer, "nodes")) {
    rows.push_back(row_of(node));
    notes += drained_text(node);
  }
  const auto out = field<std::string>(answer, "shut_out", "");
  return (out.empty() ? "" : out + "\n\n") + aligned(rows) + notes + rulers_text(answer);
}

int run_nodes(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "nodes"), [&](const json& answer) {
    const std::string key = recovery_key_of(invocation);
    return nodes_text(answer) + (key.empty() ? "" : recovery_key_advice(key));
  });
}

int run_node_revoke(const Invocation& invocation) {
  const json arguments = {{"node", invocation.arguments.text("NODE")},
                          {"reason", invocation.arguments.text("--reason")},
                          {"with_admitted", invocation.arguments.has("--with-admitted")},
                          {"restore", invocation.arguments.has("--restore-revoked")}};
  return tell(invocation, ask_node(invocation, "node.revoke", arguments), [](const json& body) {
    const auto kept = field<std::uint64_t>(body, "kept", 0);
    std::string text = word(body, "name") + " (" + word(body, "id").substr(0, 8) +
                       ") is put out: no node speaks with it any more\n";
    if (field<std::uint64_t>(body, "told", 1) == 0)
      text += "no other node is up here to be told: it counts for them once they hear of it\n";
    if (kept > 0)
      text +=
          std::to_string(kept) +
          " that it let in stay; `gpunode node revoke NODE --with-admitted` puts them out, too\n";
    if (const auto renewed = field<std::uint64_t>(body, "renewed", 0); renewed > 0)
      text += std::to_string(renewed) + " that it had put out stay out\n";
    if (const auto back = field<std::uint64_t>(body, "back", 0); back > 0)
      text += std::to_string(back) + " that it had put out are members again\n";
    if (!field<bool>(body, "silenced", true))
      text +=
          "it may operate and is senior to this node, so what it orders through nodes that have "
          "not heard of this still counts: put it out on a node nearer the founder, too, or "
          "with the recovery key (`gpunode cluster refound`)\n";
    return text;
  });
}

}  // namespace gpunode::cli
