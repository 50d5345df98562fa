#include "runtime/tokenizer/detail/fields.hpp"

namespace gpunode::tokenizer::detail {

const Json& field(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::string kind_of(const Json& part) {
  return text(part, "type");
}

bool flag(const Json& object, const char* key, bool otherwise) {
  const Json& value = field(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string text(const Json& object, const char* key, const std::string& otherwise) {
  const Json& value = field(object, key);
  return value.is_string() ? value.get<std::string>() : otherwise;
}

Result<std::string> required_text(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_string())
    return {ErrorCode::invalid_argument, std::string(key) + " is missing, or no text"};
  return value.get<std::string>();
}

Error not_known(const std::string& what, const std::string& kind) {
  return {ErrorCode::unsupported, "a " + what + " of kind '" + kind + "' is not known here"};
}

}  // namespace gpunode::tokenizer::detail
