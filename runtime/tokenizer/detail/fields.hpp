// Fields of a tokenizer.json, read with a typed error where one has another form than is known here.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::tokenizer::detail {

using Json = nlohmann::json;

// What stands under a key; null where nothing does, or `object` is none.
const Json& field(const Json& object, const char* key);
// The kind of a part, as "ByteLevel"; empty where it says none.
std::string kind_of(const Json& part);

// Of another type than asked for, or absent: the alternative.
bool flag(const Json& object, const char* key, bool otherwise);
std::string text(const Json& object, const char* key, const std::string& otherwise = {});
// Fails with: invalid_argument, naming the key.
Result<std::string> required_text(const Json& object, const char* key);

Error not_known(const std::string& what, const std::string& kind);

// A part of the file made by the function that its kind has in the table; `what` it is, for errors.
template <class Made>
using Kinds = std::map<std::string, Made (*)(const Json&)>;
template <class Made>
Made made_by_kind(const Kinds<Made>& kinds, const std::string& what, const Json& json) {
  const auto found = kinds.find(kind_of(json));
  return found == kinds.end() ? Made(not_known(what, kind_of(json))) : found->second(json);
}

// All parts of a list.
template <class Part>
Result<std::vector<Part>> all_made(const Json& list, Result<Part> (*make)(const Json&)) {
  std::vector<Part> parts;
  for (const Json& one : list) {
    auto part = make(one);
    if (!part) return part.error();
    parts.push_back(*std::move(part));
  }
  return parts;
}

}  // namespace gpunode::tokenizer::detail
