// `config`: what the node of a state directory starts with, and where each value comes from.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/node_settings.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {

using nlohmann::json;

int run_config(const Invocation& invocation) {
  if (invocation.arguments.has("--forget"))
    if (auto forgot = NodeSettings::forget(invocation.state()); !forgot)
      return fail(invocation, forgot.error());
  const auto settings = NodeSettings::read(invocation);
  if (!settings) return fail(invocation, settings.error());
  json answer = {{"file", settings->file()}, {"settings", json::array()}, {"data", json::array()}};
  std::vector<std::vector<std::string>> rows = {{"KEY", "VALUE", "FROM", "FLAG"}};
  for (const NodeSettings::Value& value : settings->all()) {
    answer["settings"].push_back({{"key", value.key},
                                  {"values", value.values},
                                  {"from", to_string(value.source)},
                                  {"flag", value.flag}});
    const bool is_switch = value.values == std::vector<std::string>{""};
    const std::string shown = is_switch ? "true" : joined(json(value.values));
    rows.push_back({value.key, shown.empty() ? "-" : shown, to_string(value.source), value.flag});
  }
  for (const auto& [name, path] : settings->data_sets())
    answer["data"].push_back({{"name", name}, {"path", path}});
  if (invocation.json()) {
    print_json(answer);
    return kOk;
  }
  std::string text = aligned(rows);
  for (const json& set : answer["data"])
    text += "data set " + word(set, "name") + ": " + word(set, "path") + "\n";
  const std::string state = invocation.state();
  text += settings->file().empty()
              ? "no " + state + "/" + NodeSettings::kFile + ": keys above, as in name = \"a\"\n"
              : "read from " + settings->file() + "\n";
  print(text);
  return kOk;
}

}  // namespace gpunode::cli
