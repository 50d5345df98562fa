#include "actors/node/command_arguments.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <vector>

#include "runtime/base/nearest.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;

// What a key's value may be.
struct Kind {
  const char* name;
  bool (json::*is)() const noexcept;
  bool needed = false;
};
constexpr Kind kText{"a text", &json::is_string};
constexpr Kind kNeededText{"a text", &json::is_string, true};
constexpr Kind kFlag{"true or false", &json::is_boolean};
constexpr Kind kWhole{"a whole number from 0 on", &json::is_number_unsigned};
constexpr Kind kReal{"a number", &json::is_number};
constexpr Kind kList{"a list", &json::is_array};
using Keys = std::map<std::string, Kind>;

const std::map<std::string, Keys>& commands() {
  static const Keys none, job{{"job", kNeededText}};
  static const std::map<std::string, Keys> all = {
      {"node.info", none},
      {"nodes", none},
      {"devices", none},
      {"device.drain", {{"device", kNeededText}}},
      {"device.resume", {{"device", kNeededText}}},
      {"metrics", none},
      {"stop", none},
      {"jobs", none},
      {"models", none},
      {"leave", {{"anyway", kFlag}}},
      {"token.create",
       {{"ttl_seconds", kWhole}, {"uses", kWhole}, {"roles", kText}, {"label", kText}}},
      {"token.ls", none},
      {"token.revoke", {{"token", kNeededText}}},
      {"node.revoke",
       {{"node", kNeededText}, {"reason", kText}, {"with_admitted", kFlag}, {"restore", kFlag}}},
      {"keys.rotate", none},
      {"cluster.refound",
       {{"recovery_key", kNeededText},
        {"without", kText},
        {"with_admitted", kFlag},
        {"check", kFlag}}},
      {"train", {{"job_file", kText}, {"directory", kText}, {"wait", kFlag}, {"check", kFlag}}},
      {"job.show", job},
      {"job.progress", job},
      {"job.log", job},
      {"job.stop", job},
      {"job.resume", {{"job", kNeededText}, {"from", kWhole}}},
      {"job.recover", {{"job", kNeededText}, {"force", kFlag}, {"anew", kFlag}}},
      {"job.find", {{"job", kNeededText}, {"purpose", kText}}},
      {"job.rm", {{"job", kNeededText}, {"force", kFlag}}},
      {"checkpoint.rm", {{"job", kNeededText}, {"step", kWhole}}},
      {"job.trace", {{"job", kNeededText}, {"steps", kWhole}}},
      {"serve",
       {{"job", kText},
        {"path", kText},
        {"name", kText},
        {"weights", kText},
        {"part", kText},
        {"copy", kFlag},
        {"version", kWhole},
        {"idle_seconds", kWhole},
        {"draft", kText},
        {"deterministic", kFlag},
        {"replace", kFlag},
        {"rollback", kFlag}}},
      {"unserve", {{"model", kNeededText}}},
      {"generate",
       {{"model", kNeededText},
        {"prompt", kText},
        {"max_tokens", kWhole},
        {"temperature", kReal},
        {"top_k", kWhole},
        {"top_p", kReal},
        {"min_p", kReal},
        {"presence_penalty", kReal},
        {"frequency_penalty", kReal},
        {"repetition_penalty", kReal},
        {"stop", kList},
        {"seed", kWhole},
        {"timeout_ms", kWhole},
        {"priority", kWhole},
        {"tell_first", kFlag}}},
      {"model.describe", {{"model", kNeededText}}},
  };
  return all;
}

template <class Value>
std::vector<std::string> keys_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

Error wrong(const std::string& command, const std::string& text) {
  return {ErrorCode::invalid_argument, "arguments of '" + command + "': " + text};
}

}  // namespace

Result<void> check_arguments(const std::string& command, const std::string& arguments) {
  const auto known = commands().find(command);
  if (known == commands().end())
    return {ErrorCode::invalid_argument, unknown_word("command", command, keys_of(commands()))};
  const Keys& keys = known->second;
  const json given = arguments.empty() ? json::object() : json::parse(arguments, nullptr, false);
  if (!given.is_object()) return wrong(command, "they are no JSON object");
  for (const auto& [key, value] : given.items()) {
    const auto found = keys.find(key);
    if (found == keys.end())
      return wrong(command, keys.empty() ? "there are none, but '" + key + "' is given"
                                         : unknown_word("key", key, keys_of(keys)));
    if (!(value.*found->second.is)())
      return wrong(command, "'" + key + "' must be " + found->second.name);
  }
  for (const auto& [key, kind] : keys)
    if (kind.needed && !given.contains(key)) return wrong(command, "'" + key + "' is missing");
  return {};
}

}  // namespace gpunode::node
