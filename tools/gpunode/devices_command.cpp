// `devices`, `device drain`, `device resume`: what this node computes on.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// A job's id is cut; a model is named.
std::string short_user(const std::string& user) {
  return user.find(' ') == std::string::npos ? user.substr(0, 8) : user;
}

std::string table_of(const json& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"DEVICE", "STATE", "USED BY", "MEMORY", "NAME", "LIBRARY"}};
  std::string notes;
  for (const json& device : list(answer, "devices")) {
    std::vector<std::string> users;
    for (const json& user : list(device, "used_by"))
      users.push_back(short_user(user.get<std::string>()));
    std::string used_by;
    for (const std::string& user : users) used_by += (used_by.empty() ? "" : ",") + user;
    const double memory = field<double>(device, "memory_bytes", -1);
    rows.push_back({word(device, "device"), word(device, "state"),
                    used_by.empty() ? "nobody" : used_by, memory < 0 ? "?" : human_bytes(memory),
                    word(device, "name"),
                    word(device, "instruction_set") + ", " + word(device, "library")});
    if (device.contains("reason"))
      notes += word(device, "device") + " is " + word(device, "state") + ": " +
               word(device, "reason") + "\n";
    if (device.contains("warning"))
      notes += word(device, "device") + " takes work, " + word(device, "warning") + "\n";
  }
  return aligned(rows) + notes;
}

}  // namespace

int run_devices(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "devices"), table_of);
}

int run_device_order(const Invocation& invocation) {
  const std::string order = invocation.command->name;
  const std::string command = "device." + order.substr(std::string("device ").size());
  return tell(invocation,
              ask_node(invocation, command, {{"device", invocation.arguments.text("DEVICE")}}),
              table_of);
}

}  // namespace gpunode::cli
