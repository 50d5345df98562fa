// Fields of a tokenizer.json, read with a typed error where one has another form than is known here.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>

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

}  // namespace gpunode::tokenizer::detail
