// `devices`, `device drain`, `device resume`: what this node computes on.
#include <map>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

using Names = std::map<std::string, std::string>;  // of jobs, by id

bool is_job(const std::string& user) {
  return user.find(' ') == std::string::npos;
}

// Of the jobs that have a part on the devices; of none that is not known by now.
Names names_of_users(const Invocation& invocation, const json& answer) {
  bool any = false;
  for (const json& device : list(answer, "devices"))
    for (const json& user : list(device, "used_by")) any = any || is_job(user.get<std::string>());
  Names names;
  if (!any) return names;
  const Answer jobs = ask_node(invocation, "jobs");
  for (const json& job : list(jobs.body, "jobs")) names[word(job, "job")] = word(job, "shown_as");
  return names;
}

std::string user_text(const std::string& user, const Names& names) {
  if (!is_job(user)) return user;
  const auto name = names.find(user);
  return name == names.end() ? user.substr(0, 8) : name->second;
}

std::string table_of(const json& answer, const Names& names) {
  std::vector<std::vector<std::string>> rows = {
      {"DEVICE", "STATE", "USED BY", "MEMORY", "NAME", "LIBRARY"}};
  std::string notes;
  for (const json& device : list(answer, "devices")) {
    std::vector<std::string> users;
    for (const json& user : list(device, "used_by"))
      users.push_back(user_text(user.get<std::string>(), names));
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

int tell_devices(const Invocation& invocation, const Answer& answer) {
  return tell(invocation, answer,
              [&](const json& told) { return table_of(told, names_of_users(invocation, told)); });
}

}  // namespace

int run_devices(const Invocation& invocation) {
  return tell_devices(invocation, ask_node(invocation, "devices"));
}

int run_device_order(const Invocation& invocation) {
  const std::string order = invocation.command->name;
  const std::string command = "device." + order.substr(std::string("device ").size());
  return tell_devices(
      invocation, ask_node(invocation, command, {{"device", invocation.arguments.text("DEVICE")}}));
}

}  // namespace gpunode::cli
