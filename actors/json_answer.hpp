// The JSON that answers a person's command: {"ok":true, ...} or {"ok":false,"error":{...}}.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/result.hpp"

namespace gpunode {

// Names come from peers and paths from files: what is no UTF-8 in them is replaced.
inline std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline std::string error_json(const Error& error) {
  return text_of(
      {{"ok", false}, {"error", {{"code", to_string(error.code)}, {"detail", error.detail}}}});
}

inline std::string ok_json(nlohmann::json fields) {
  fields["ok"] = true;
  return text_of(fields);
}

inline std::string answer_json(const Result<nlohmann::json>& result) {
  return result ? ok_json(*result) : error_json(result.error());
}

// The arguments of a command, which its own CLI wrote; anything else is an empty object.
// What is nested deeper than anything that is ever said is left out: to write it again would take
// as much stack.
inline nlohmann::json arguments_of(const std::string& text) {
  constexpr int kDeepest = 32;
  const auto shallow = [](int depth, auto, auto&) { return depth < kDeepest; };
  nlohmann::json parsed = nlohmann::json::parse(text, shallow, false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

// A field of the given type, or the fallback.
template <class T>
T field(const nlohmann::json& object, const char* key, T fallback) {
  auto it = object.find(key);
  if (it == object.end()) return fallback;
  try {
    return it->get<T>();
  } catch (const nlohmann::json::exception&) {
    return fallback;
  }
}

// The answer of a command as ok_json and error_json write it. Fails with the error in it, or with
// internal when it is no answer at all.
inline Result<nlohmann::json> parsed_answer(const std::string& text) {
  nlohmann::json body = arguments_of(text);
  if (body.is_object() && field<bool>(body, "ok", false)) return body;
  if (!body.is_object()) body = nlohmann::json::object();
  const auto told = field<nlohmann::json>(body, "error", nlohmann::json::object());
  const auto code = field<std::string>(told, "code", "");
  Error error{ErrorCode::internal, field<std::string>(told, "detail", "the node gave no reason")};
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i)
    if (code == to_string(static_cast<ErrorCode>(i))) error.code = static_cast<ErrorCode>(i);
  return error;
}

}  // namespace gpunode
