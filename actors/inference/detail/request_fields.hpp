// The fields of a JSON request, each read once and strictly: what is not asked for by name is refused, with
// the nearest name that is known. Private to the parsers of OpenAI's requests.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/inference/detail/json_of_strangers.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference::openai {

// In the order of their keys, as a chat's template may show an object.
using Json = nlohmann::ordered_json;

inline constexpr int kDeepest = 64;

// What a request's body holds; no object where it is none, or too deep.
inline Json parsed(std::string_view body) {
  return object_within<Json>(body, kDeepest);
}
inline Error no_object() {
  return {ErrorCode::invalid_argument,
          "the request's body is no JSON object, or one of more than " + std::to_string(kDeepest) +
              " levels"};
}

// The fields of a request, each read once; null stands for what is absent.
class Fields {
 public:
  explicit Fields(Json body) : body_(std::move(body)) {}

  const Json* find(const std::string& name) {
    known_.push_back(name);
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  void real(const std::string& name, double low, double high, double& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    const double given = found->is_number() ? found->get<double>() : low - 1;
    if (!(given >= low && given <= high))
      refuse(name, "must be a number from " + Json(low).dump() + " to " + Json(high).dump());
    else
      value = given;
  }
  template <class Whole>
  void whole(const std::string& name, std::uint64_t low, std::uint64_t high, Whole& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() >= low &&
                      found->get<std::uint64_t>() <= high;
    if (!fits)
      refuse(name,
             "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    else
      value = static_cast<Whole>(found->get<std::uint64_t>());
  }
  void flag(const std::string& name, bool& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    if (!found->is_boolean())
      refuse(name, "must be true or false");
    else
      value = found->get<bool>();
  }
  // A text, or a list of texts.
  std::vector<std::string> texts(const std::string& name, std::size_t most) {
    const Json* found = find(name);
    std::vector<std::string> made;
    if (!found || failure) return made;
    const Json list = found->is_array() ? *found : Json::array({*found});
    if (list.size() > most) refuse(name, "has more than " + std::to_string(most) + " entries");
    for (const Json& one : list) {
      if (failure) break;
      if (one.is_string())
        made.push_back(one.get<std::string>());
      else
        refuse(name, "must be a text or a list of texts");
    }
    return made;
  }
  // One that may only say what is done anyway.
  void only(const std::string& name, const Json& value) {
    const Json* found = find(name);
    if (found && !failure && *found != value) refuse(name, "can only be " + value.dump() + " here");
  }
  void refuse_unknown() {
    if (failure) return;
    for (const auto& [name, value] : body_.items())
      if (std::ranges::find(known_, name) == known_.end())
        refuse_because(name, unknown_word("field", name, known_));
  }
  void refuse(const std::string& name, const std::string& what) {
    refuse_because(name, "'" + name + "' " + what);
  }

  std::optional<Error> failure;
  std::string wrong;  // the field that it is about

 private:
  void refuse_because(const std::string& name, std::string why) {
    failure = {ErrorCode::invalid_argument, std::move(why)};
    wrong = name;
  }

  const Json body_;
  std::vector<std::string> known_;
};

}  // namespace gpunode::inference::openai
