// `nodes`: who is in the cluster, how they fare, and what they have.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
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

std::vector<std::string> row_of(const json& node) {
  json report = object(node, "health_report");
  json host = object(report, "host");
  json drained = list(report, "drained");
  std::string health = word(node, "health");
  if (drained.is_array() && !drained.empty()) health += " (drained)";
  return {word(node, "name") + (field<bool>(node, "self", false) ? " (this one)" : ""),
          word(node, "id").substr(0, 8),
          health,
          human_duration(field<double>(node, "since_seconds", -1)),
          percent(host, "cpu_load"),
          bytes(host, "memory_available_bytes"),
          bytes(host, "disk_free_bytes"),
          gpus_text(report),
          labels_text(object(node, "labels")),
          places_of(list(node, "endpoints")),
          places_of(list(node, "join_endpoints"))};
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
                                                 "MEMORY FREE", "DISK FREE", "GPUS", "LABELS",
                                                 "ADDRESS", "JOIN"}};
  std::string notes;
  for (const json& node : list(answer, "nodes")) {
    rows.push_back(row_of(node));
    notes += drained_text(node);
  }
  return aligned(rows) + notes;
}

int run_nodes(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "nodes"), nodes_text);
}

}  // namespace gpunode::cli
