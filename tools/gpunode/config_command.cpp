// `config`: what the node of a state directory starts with, and where each value comes from.
#include "runtime/storage/confined_files.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/node_settings.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {

using nlohmann::json;

namespace {

std::string users_text(const json& set) {
  const json users = list(set, "for");
  std::string text = users == json::array({"any"}) ? "for jobs of every node that may submit"
                     : users.empty()               ? "for this node's own jobs alone"
                                     : "for this node's own jobs and those of " + joined(users);
  if (set.contains("problem")) text += "; it cannot be read: " + word(set, "problem");
  return text;
}

std::string text_of(const json& answer, const std::string& state) {
  std::vector<std::vector<std::string>> rows = {{"KEY", "VALUE", "FROM", "FLAG"}};
  for (const json& setting : list(answer, "settings")) {
    const json values = list(setting, "values");
    const std::string shown = values == json::array({""}) ? "true" : joined(values);  // a switch
    rows.push_back({word(setting, "key"), shown.empty() ? "-" : shown, word(setting, "from"),
                    word(setting, "flag")});
  }
  std::string text = aligned(rows);
  for (const json& set : list(answer, "data"))
    text +=
        "data set " + word(set, "name") + ": " + word(set, "path") + ", " + users_text(set) + "\n";
  const std::string file = word(answer, "file");
  if (!file.empty()) return text + "read from " + file + "\n";
  return text + "no " + state + "/" + NodeSettings::kFile + ": keys above, as in name = \"a\"\n";
}

}  // namespace

int run_config(const Invocation& invocation) {
  if (invocation.arguments.has("--forget"))
    if (auto forgot = NodeSettings::forget(invocation.state()); !forgot)
      return fail(invocation, forgot.error());
  const auto settings = NodeSettings::read(invocation);
  if (!settings) return fail(invocation, settings.error(), kUsage);
  json answer = {{"file", settings->file()}, {"settings", json::array()}, {"data", json::array()}};
  for (const NodeSettings::Value& value : settings->all())
    answer["settings"].push_back({{"key", value.key},
                                  {"values", value.values},
                                  {"from", to_string(value.source)},
                                  {"flag", value.flag}});
  for (const auto& [name, offer] : settings->data_sets()) {
    json set = {{"name", name}, {"path", offer.path}, {"for", offer.users}};
    if (auto opened = storage::ConfinedFiles::open({offer.path, offer.path, invocation.state()});
        !opened)
      set["problem"] = opened.error().message();
    answer["data"].push_back(std::move(set));
  }
  return tell(invocation, {answer, std::nullopt, kOk},
              [&](const json& told) { return text_of(told, invocation.state()); });
}

}  // namespace gpunode::cli
