// `nodes`: who is in the cluster, how they fare, and what they have.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

std::string list_text(const json& list) {
  std::string out;
  if (!list.is_array()) return out;
  for (const json& one : list)
    if (one.is_string()) out += (out.empty() ? "" : ",") + one.get<std::string>();
  return out;
}

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

std::vector<std::string> row_of(const json& node) {
  json report = field<json>(node, "health_report", json::object());
  json host = field<json>(report, "host", json::object());
  json drained = field<json>(report, "drained", json::array());
  std::string health = field<std::string>(node, "health", "?");
  if (drained.is_array() && !drained.empty()) health += " (drained)";
  return {field<std::string>(node, "name", "?") +
              (field<bool>(node, "self", false) ? " (this one)" : ""),
          field<std::string>(node, "id", "?").substr(0, 8),
          health,
          human_duration(field<double>(node, "since_seconds", -1)),
          percent(host, "cpu_load"),
          bytes(host, "memory_available_bytes"),
          bytes(host, "disk_free_bytes"),
          gpus_text(report),
          labels_text(field<json>(node, "labels", json::object())),
          list_text(field<json>(node, "endpoints", json::array()))};
}

std::string drained_text(const json& node) {
  std::string out;
  json report = field<json>(node, "health_report", json::object());
  json drained = field<json>(report, "drained", json::array());
  for (const json& verdict : drained)
    out += field<std::string>(node, "name", "?") + ": " +
           field<std::string>(verdict, "subject", "node") +
           " is drained: " + field<std::string>(verdict, "reason", "?") + "\n";
  return out;
}

}  // namespace

int run_nodes(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "nodes");
  if (!answer) return fail(invocation, answer);
  if (invocation.json()) {
    print_json(answer.body);
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "ID", "HEALTH", "SINCE", "CPU",
                                                 "MEMORY FREE", "DISK FREE", "GPUS", "LABELS",
                                                 "ADDRESS"}};
  std::string notes;
  for (const json& node : field<json>(answer.body, "nodes", json::array())) {
    rows.push_back(row_of(node));
    notes += drained_text(node);
  }
  print(aligned(rows) + notes);
  return kOk;
}

}  // namespace gpunode::cli
