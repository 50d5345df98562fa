#include "runtime/tokenizer/detail/post_processor.hpp"

namespace gpunode::tokenizer::detail {
namespace {

bool is_token(const Json& value) {
  constexpr std::uint64_t kMost = 1u << 22;
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
}

// A pair of text and number, as "cls" and "sep" are.
Result<Token> token_of(const Json& json, const char* key) {
  const Json& pair = field(json, key);
  if (!pair.is_array() || pair.size() != 2 || !is_token(pair[1]))
    return {ErrorCode::invalid_argument, std::string(key) + " is missing, or no token"};
  return pair[1].get<Token>();
}

Result<Surroundings> of_marks(const Json& json) {
  const auto begin = token_of(json, "cls"), end = token_of(json, "sep");
  if (!begin) return begin.error();
  if (!end) return end.error();
  return Surroundings{{*begin}, {*end}};
}

Result<Surroundings> of_template(const Json& json) {
  Surroundings made;
  bool text_seen = false;
  const Json& known = field(json, "special_tokens");
  for (const Json& one : field(json, "single")) {
    if (!field(one, "Sequence").is_null()) {
      if (std::exchange(text_seen, true))
        return {ErrorCode::unsupported, "a template that has the text twice"};
      continue;
    }
    const std::string name = text(field(one, "SpecialToken"), "id");
    for (const Json& token : field(field(known, name.c_str()), "ids")) {
      if (!is_token(token)) return {ErrorCode::invalid_argument, name + " is no token"};
      (text_seen ? made.after : made.before).push_back(token.get<Token>());
    }
  }
  if (!text_seen) return {ErrorCode::invalid_argument, "a template without the text"};
  return made;
}

// One around the other, the first one inside.
Result<Surroundings> of_sequence(const Json& json) {
  Surroundings made;
  for (const Json& one : field(json, "processors")) {
    const auto more = make_surroundings(one);
    if (!more) return more;
    made.before.insert(made.before.begin(), more->before.begin(), more->before.end());
    made.after.insert(made.after.end(), more->after.begin(), more->after.end());
  }
  return made;
}

}  // namespace

Result<Surroundings> make_surroundings(const Json& json) {
  const std::string kind = kind_of(json);
  if (json.is_null() || kind == "ByteLevel") return Surroundings{};  // which moves no tokens
  if (kind == "BertProcessing" || kind == "RobertaProcessing") return of_marks(json);
  if (kind == "TemplateProcessing") return of_template(json);
  if (kind == "Sequence") return of_sequence(json);
  return not_known("post-processor", kind);
}

}  // namespace gpunode::tokenizer::detail
