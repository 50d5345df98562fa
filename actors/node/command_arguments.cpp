#include "actors/node/command_arguments.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <vector>

#include "runtime/base/nearest.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;

enum class Kind : std::uint8_t { text, needed_text, flag, whole, real };
using Keys = std::map<std::string, Kind>;

const std::map<std::string, Keys>& commands() {
  static const Keys none, job{{"job", Kind::needed_text}};
  static const std::map<std::string, Keys> all = {
      {"node.info", none},
      {"nodes", none},
      {"metrics", none},
      {"stop", none},
      {"jobs", none},
      {"models", none},
      {"leave", {{"anyway", Kind::flag}}},
      {"token.create", {{"ttl_seconds", Kind::whole}, {"uses", Kind::whole}}},
      {"train", {{"job_file", Kind::text}, {"directory", Kind::text}}},
      {"job.show", job},
      {"job.progress", job},
      {"job.log", job},
      {"job.stop", job},
      {"job.resume", {{"job", Kind::needed_text}, {"from", Kind::whole}}},
      {"job.recover", {{"job", Kind::needed_text}, {"force", Kind::flag}}},
      {"job.trace", {{"job", Kind::needed_text}, {"steps", Kind::whole}}},
      {"serve", {{"job", Kind::text}, {"path", Kind::text}, {"name", Kind::text}}},
      {"generate",
       {{"model", Kind::needed_text},
        {"prompt", Kind::text},
        {"max_tokens", Kind::whole},
        {"temperature", Kind::real},
        {"top_k", Kind::whole},
        {"seed", Kind::whole},
        {"timeout_ms", Kind::whole}}},
  };
  return all;
}

template <class Value>
std::vector<std::string> keys_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

bool is_a(Kind kind, const json& value) {
  switch (kind) {
    case Kind::text:
    case Kind::needed_text:
      return value.is_string();
    case Kind::flag:
      return value.is_boolean();
    case Kind::whole:
      return value.is_number_unsigned();
    case Kind::real:
      return value.is_number();
  }
  return false;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::text:
    case Kind::needed_text:
      return "a text";
    case Kind::flag:
      return "true or false";
    case Kind::whole:
      return "a whole number from 0 on";
    case Kind::real:
      return "a number";
  }
  return "";
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
    if (!is_a(found->second, value))
      return wrong(command, "'" + key + "' must be " + name_of(found->second));
  }
  for (const auto& [key, kind] : keys)
    if (kind == Kind::needed_text && !given.contains(key))
      return wrong(command, "'" + key + "' is missing");
  return {};
}

}  // namespace gpunode::node
