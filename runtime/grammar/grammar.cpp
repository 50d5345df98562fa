#include "runtime/grammar/grammar.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/nearest.hpp"
#include "runtime/grammar/detail/json_rules.hpp"
#include "runtime/grammar/detail/json_schema.hpp"

namespace gpunode::grammar {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMostDepth = 160;  // of a form's own JSON

// With a bound on its depth, as what follows goes into it.
Json parsed(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (in_text && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_text = !in_text;
    } else if (!in_text) {
      if (text[at] == '{' || text[at] == '[') ++depth;
      if (text[at] == '}' || text[at] == ']') --depth;
      if (depth > kMostDepth) return Json(Json::value_t::discarded);
    }
  }
  return Json::parse(text, nullptr, false);
}

Result<void> read_choices(AutomatonBuilder& builder, const Json& form) {
  const Error wrong{ErrorCode::invalid_argument,
                    "choices must be a list of texts, one at least and none of them empty"};
  if (!form.contains("choices") || !form["choices"].is_array() || form["choices"].empty())
    return wrong;
  std::vector<std::string> choices;
  for (const Json& one : form["choices"]) {
    if (!one.is_string() || one.get<std::string>().empty()) return wrong;
    choices.push_back(one.get<std::string>());
  }
  const RuleId whole = builder.add_rule("the choices");
  builder.ends(builder.on_one_of(builder.start_of(whole), choices));
  return {};
}

Result<void> read_json(AutomatonBuilder& builder, const Json& form, bool has_schema) {
  const detail::JsonRules json = detail::add_json_rules(builder);
  RuleId value = json.object;
  if (has_schema) {
    if (!form.contains("schema"))
      return {ErrorCode::invalid_argument, "a form of type json_schema has a schema"};
    const auto of_schema = detail::add_schema(builder, json, form["schema"]);
    if (!of_schema) return of_schema.error();
    value = *of_schema;
  }
  const RuleId whole = builder.add_rule("the whole text");
  const StateId begin = builder.on_rule(builder.start_of(whole), json.space);
  builder.ends(builder.on_rule(begin, value));
  return {};
}

}  // namespace

Result<std::shared_ptr<const Automaton>> parse_form(std::string_view form) {
  if (form.size() > kLongestFormBytes)
    return Error{ErrorCode::resource_exhausted,
                 "a form has at most " + std::to_string(kLongestFormBytes) + " bytes"};
  const Json read = parsed(form);
  if (!read.is_object() || !read.contains("type") || !read["type"].is_string())
    return Error{ErrorCode::invalid_argument, "a form is a JSON object with a type, less than " +
                                                  std::to_string(kMostDepth) + " deep"};
  const auto type = read["type"].get<std::string>();
  AutomatonBuilder builder;
  Result<void> done{};
  if (type == "choice")
    done = read_choices(builder, read);
  else if (type == "json_object" || type == "json_schema")
    done = read_json(builder, read, type == "json_schema");
  else
    done = Error{ErrorCode::unsupported,
                 unknown_word("form", type,
                              std::vector<std::string>{"json_object", "json_schema", "choice"})};
  if (!done) return done.error();
  return builder.finish();
}

}  // namespace gpunode::grammar
