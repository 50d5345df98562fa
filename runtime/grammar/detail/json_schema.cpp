#include "runtime/grammar/detail/json_schema.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/nearest.hpp"

namespace gpunode::grammar::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostNested = 64;                  // schemas in each other
constexpr std::uint64_t kMostCounted = 1 << 14;  // items, characters

const std::set<std::string> kAnnotations{"title",    "description", "default",  "examples",
                                         "$schema",  "$id",         "$comment", "deprecated",
                                         "readOnly", "writeOnly",   "$defs",    "definitions"};

struct Bounds {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least = 0, most = kNone;
};

class SchemaReader {
 public:
  SchemaReader(AutomatonBuilder& builder, const JsonRules& json, const Json& whole)
      : builder_(builder), json_(json), whole_(whole) {}

  RuleId rule_of(const Json& schema, const std::string& path);
  std::optional<Error> failure;

 private:
  using Reader = RuleId (SchemaReader::*)(const Json& schema, const std::string& path);

  void fail(ErrorCode code, const std::string& path, const std::string& what) {
    if (!failure) failure = {code, "the schema at " + path + ": " + what};
  }
  void wrong(const std::string& path, const std::string& what) {
    fail(ErrorCode::invalid_argument, path, what);
  }
  void expect_only(const Json& schema, const std::string& path, std::set<std::string> known);
  RuleId one_of(const std::vector<RuleId>& rules, const std::string& path);
  RuleId literal_of(std::vector<Json> values, const Json& schema, const std::string& path);
  RuleId reference(const Json& schema, const std::string& path);
  RuleId any_of(const Json& schema, const std::string& path);
  RuleId typed(const Json& schema, const std::string& path);
  RuleId of_type(const std::string& type, const Json& schema, const std::string& path);
  RuleId object(const Json& schema, const std::string& path);
  RuleId list(const Json& schema, const std::string& path);
  RuleId text(const Json& schema, const std::string& path);
  Bounds bounds(const Json& schema, const std::string& path, const char* least, const char* most);
  // Of so many: `step` goes from a state to the one behind one more.
  template <class Step>
  void repeat(StateId from, Bounds bounds, StateId behind, Step step);
  StateId spaced(StateId from, std::string_view text) {
    return builder_.on_rule(builder_.on_text(from, text), json_.space);
  }
  // The name between its quotes, the colon and the value.
  StateId member(StateId from, const std::string& name, RuleId value) {
    const StateId colon = builder_.on_rule(builder_.on_text(from, Json(name).dump()), json_.space);
    return builder_.on_rule(builder_.on_rule(spaced(colon, ":"), value), json_.space);
  }

  AutomatonBuilder& builder_;
  const JsonRules& json_;
  const Json& whole_;
  std::map<std::string, RuleId> references_;
  int nested_ = 0;
};

void SchemaReader::expect_only(const Json& schema, const std::string& path,
                               std::set<std::string> known) {
  for (const auto& [name, value] : schema.items()) {
    if (known.contains(name) || kAnnotations.contains(name)) continue;
    std::string listed;
    for (const std::string& one : known) listed += (listed.empty() ? "" : ", ") + one;
    return fail(ErrorCode::unsupported, path + "/" + name,
                "the keyword is not known here; here may stand: " + listed);
  }
}

RuleId SchemaReader::one_of(const std::vector<RuleId>& rules, const std::string& path) {
  if (rules.size() == 1) return rules.front();
  const RuleId made = builder_.add_rule(path);
  const StateId end = builder_.add_state();
  builder_.ends(end);
  for (const RuleId rule : rules) builder_.on_rule(builder_.start_of(made), rule, end);
  return made;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  if (type == "number") return value.is_number();
  return value.type_name() == type || (type == "object" && value.is_object());
}

bool is_of_types(const Json& value, const Json& types) {
  if (types.is_string()) return is_of_type(value, types.get<std::string>());
  return std::ranges::any_of(types, [&](const Json& type) {
    return type.is_string() && is_of_type(value, type.get<std::string>());
  });
}

RuleId SchemaReader::literal_of(std::vector<Json> values, const Json& schema,
                                const std::string& path) {
  expect_only(schema, path, {"enum", "const", "type"});
  if (schema.contains("type"))
    std::erase_if(values, [&](const Json& value) { return !is_of_types(value, schema["type"]); });
  if (values.empty()) wrong(path, "no value is possible: enum, const and type leave none");
  std::vector<std::string> texts;
  for (const Json& value : values)
    texts.push_back(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  const RuleId made = builder_.add_rule(path);
  builder_.ends(builder_.on_one_of(builder_.start_of(made), texts));
  return made;
}

RuleId SchemaReader::reference(const Json& schema, const std::string& path) {
  expect_only(schema, path, {"$ref"});
  if (!schema["$ref"].is_string()) {
    wrong(path, "$ref must be a text");
    return 0;
  }
  const auto to = schema["$ref"].get<std::string>();
  if (const auto known = references_.find(to); known != references_.end()) return known->second;
  const bool is_known = to == "#" || to.starts_with("#/$defs/") || to.starts_with("#/definitions/");
  const Json* found = nullptr;
  if (is_known) {
    try {
      const Json::json_pointer pointer(to.substr(1));
      if (whole_.contains(pointer)) found = &whole_.at(pointer);
    } catch (const Json::exception&) {
      found = nullptr;  // no pointer
    }
  }
  if (!found) {
    wrong(path, "$ref is to '" + to +
                    "', and there is nothing that is known here: it may be to '#', "
                    "'#/$defs/NAME' or '#/definitions/NAME'");
    return 0;
  }
  // Known by now, as it may stand in itself.
  const RuleId made = references_[to] = builder_.add_rule(path + " ($ref to " + to + ")");
  const StateId end = builder_.add_state();
  builder_.ends(end);
  builder_.on_rule(builder_.start_of(made), rule_of(*found, to), end);
  return made;
}

RuleId SchemaReader::any_of(const Json& schema, const std::string& path) {
  expect_only(schema, path, {"anyOf"});
  const Json& each = schema["anyOf"];
  if (!each.is_array() || each.empty()) {
    wrong(path, "anyOf must be a list of schemas, one at least");
    return 0;
  }
  std::vector<RuleId> rules;
  for (std::size_t at = 0; at < each.size() && !failure; ++at)
    rules.push_back(rule_of(each[at], path + "/anyOf/" + std::to_string(at)));
  return one_of(rules, path);
}

Bounds SchemaReader::bounds(const Json& schema, const std::string& path, const char* least,
                            const char* most) {
  const auto number = [&](const char* name) -> std::optional<std::uint64_t> {
    if (!schema.contains(name)) return std::nullopt;
    const Json& value = schema[name];
    if (!value.is_number_unsigned()) {
      wrong(path, std::string(name) + " must be a whole number, not negative");
      return std::nullopt;
    }
    if (value.get<std::uint64_t>() > kMostCounted)
      fail(ErrorCode::resource_exhausted, path,
           std::string(name) + " may be " + std::to_string(kMostCounted) + " at most here");
    return value.get<std::uint64_t>();
  };
  const Bounds made{number(least).value_or(0), number(most).value_or(Bounds::kNone)};
  if (made.most < made.least) wrong(path, std::string(least) + " is more than " + most);
  return made;
}

template <class Step>
void SchemaReader::repeat(StateId from, Bounds bounds, StateId behind, Step step) {
  for (std::uint64_t count = 0; !failure && !builder_.is_full(); ++count) {
    if (count >= bounds.least) builder_.silently(from, behind);
    if (count == bounds.most) return;
    if (bounds.most == Bounds::kNone && count >= bounds.least) return step(from, from, count);
    const StateId next = builder_.add_state();
    step(from, next, count);
    from = next;
  }
}

RuleId SchemaReader::text(const Json& schema, const std::string& path) {
  const Bounds length = bounds(schema, path, "minLength", "maxLength");
  if (length.least == 0 && length.most == Bounds::kNone) return json_.text;
  const RuleId made = builder_.add_rule(path);
  const StateId end = builder_.add_state();
  repeat(builder_.on_text(builder_.start_of(made), "\""), length, end,
         [&](StateId from, StateId to, std::uint64_t count) {
           on_character(builder_, from, to, json_.escaped);
           // A character has a byte at least.
           if (count < length.least)
             builder_.has_twin(from, json_.in_endless_text, length.least - count);
           else
             builder_.has_twin(from, json_.in_text, length.most - count);
         });
  builder_.ends(builder_.on_text(end, "\""));
  return made;
}

RuleId SchemaReader::list(const Json& schema, const std::string& path) {
  const Bounds count = bounds(schema, path, "minItems", "maxItems");
  const RuleId item =
      schema.contains("items") ? rule_of(schema["items"], path + "/items") : json_.value;
  if (failure) return 0;
  const RuleId made = builder_.add_rule(path);
  const StateId begin = spaced(builder_.start_of(made), "["), end = builder_.add_state();
  const auto item_at = [&](StateId from) {
    return builder_.on_rule(builder_.on_rule(from, item), json_.space);
  };
  if (count.least == 0) builder_.silently(begin, end);
  if (count.most > 0) {
    const Bounds others{count.least > 0 ? count.least - 1 : 0,
                        count.most == Bounds::kNone ? count.most : count.most - 1};
    repeat(item_at(begin), others, end, [&](StateId from, StateId to, std::uint64_t) {
      builder_.silently(item_at(spaced(from, ",")), to);
    });
  }
  builder_.ends(builder_.on_text(end, "]"));
  return made;
}

RuleId SchemaReader::object(const Json& schema, const std::string& path) {
  const bool has_names = schema.contains("properties");
  if (!has_names && !schema.contains("required") && !schema.contains("additionalProperties"))
    return json_.object;
  const Json properties = has_names ? schema["properties"] : Json::object();
  const Json required = schema.contains("required") ? schema["required"] : Json::array();
  if (!properties.is_object() || !required.is_array()) {
    wrong(path, "properties must be an object, and required a list of names");
    return 0;
  }
  std::set<std::string> needed;
  for (const Json& name : required) {
    if (!name.is_string() || !properties.contains(name.get<std::string>()))
      fail(ErrorCode::unsupported, path,
           "required has " + name.dump(-1, ' ', false, Json::error_handler_t::replace) +
               ", which is not among the properties");
    else
      needed.insert(name.get<std::string>());
  }
  const RuleId made = builder_.add_rule(path);
  // Where nothing stands yet, and where something does, so that a comma comes first.
  StateId none = spaced(builder_.start_of(made), "{"), some = builder_.add_state();
  std::vector<std::string> names;
  for (const auto& [name, value] : properties.items()) {
    names.push_back(name);
    const RuleId rule = rule_of(value, path + "/properties/" + name);
    if (failure) return 0;
    const StateId next_none = builder_.add_state(), next_some = builder_.add_state();
    const StateId key = builder_.add_state();
    builder_.silently(none, key);
    builder_.silently(spaced(some, ","), key);
    builder_.silently(member(key, name, rule), next_some);
    if (!needed.contains(name)) {
      builder_.silently(none, next_none);
      builder_.silently(some, next_some);
    }
    none = next_none;
    some = next_some;
  }
  const Json others =
      schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(!has_names);
  if (others != Json(false)) {
    const RuleId value =
        others == Json(true) ? json_.value : rule_of(others, path + "/additionalProperties");
    if (failure) return 0;
    const StateId key = builder_.add_state();
    builder_.silently(none, key);
    builder_.silently(spaced(some, ","), key);
    const StateId name = builder_.on_text(key, "\"");
    const StateId colon =
        builder_.on_rule(builder_.on_text(on_other_name(builder_, name, names), "\""), json_.space);
    builder_.silently(builder_.on_rule(builder_.on_rule(spaced(colon, ":"), value), json_.space),
                      some);
  }
  const StateId end = builder_.add_state();
  builder_.on_any_of(none, "}", end);
  builder_.on_any_of(some, "}", end);
  builder_.ends(end);
  return made;
}

RuleId SchemaReader::of_type(const std::string& type, const Json& schema, const std::string& path) {
  if (type == "object") return object(schema, path);
  if (type == "array") return list(schema, path);
  if (type == "string") return text(schema, path);
  if (type == "number") return json_.number;
  if (type == "integer") return json_.whole;
  std::vector<std::string> words;
  if (type == "null") words = {"null"};
  if (type == "boolean") words = {"true", "false"};
  if (words.empty())
    wrong(path, unknown_word("type", type,
                             std::vector<std::string>{"object", "array", "string", "number",
                                                      "integer", "boolean", "null"}));
  const RuleId made = builder_.add_rule(path);
  builder_.ends(builder_.on_one_of(builder_.start_of(made), words));
  return made;
}

RuleId SchemaReader::typed(const Json& schema, const std::string& path) {
  const Json& type = schema["type"];
  const Json types = type.is_array() ? type : Json::array({type});
  std::set<std::string> known{"type"};
  const std::map<std::string, std::set<std::string>> kOfTypes{
      {"object", {"properties", "required", "additionalProperties"}},
      {"array", {"items", "minItems", "maxItems"}},
      {"string", {"minLength", "maxLength"}}};
  std::vector<RuleId> rules;
  for (const Json& one : types) {
    if (!one.is_string()) {
      wrong(path, "type must be a text or a list of texts");
      return 0;
    }
    if (const auto of = kOfTypes.find(one.get<std::string>()); of != kOfTypes.end())
      known.insert(of->second.begin(), of->second.end());
  }
  expect_only(schema, path, known);
  for (const Json& one : types)
    if (!failure) rules.push_back(of_type(one.get<std::string>(), schema, path));
  if (rules.empty()) wrong(path, "type is an empty list");
  return failure ? 0 : one_of(rules, path);
}

RuleId SchemaReader::rule_of(const Json& schema, const std::string& path) {
  if (failure) return 0;
  if (builder_.is_full()) return 0;
  if (schema == Json(true)) return json_.value;
  if (!schema.is_object()) {
    wrong(path, "a schema is an object, or true");
    return 0;
  }
  if (++nested_ > kMostNested)
    fail(ErrorCode::resource_exhausted, path,
         "schemas stand in each other more than " + std::to_string(kMostNested) + " deep");
  RuleId made = 0;
  if (failure) return made;
  if (schema.contains("$ref")) {
    made = reference(schema, path);
  } else if (schema.contains("anyOf")) {
    made = any_of(schema, path);
  } else if (schema.contains("const")) {
    made = literal_of({schema["const"]}, schema, path);
  } else if (schema.contains("enum")) {
    if (schema["enum"].is_array())
      made = literal_of(schema["enum"], schema, path);
    else
      wrong(path, "enum must be a list of values");
  } else if (schema.contains("type")) {
    made = typed(schema, path);
  } else {
    expect_only(schema, path, {"type", "anyOf", "enum", "const", "$ref"});
    made = json_.value;
  }
  --nested_;
  return made;
}

}  // namespace

Result<RuleId> add_schema(AutomatonBuilder& builder, const JsonRules& json, const Json& schema) {
  SchemaReader reader(builder, json, schema);
  const RuleId rule = reader.rule_of(schema, "#");
  if (reader.failure) return *reader.failure;
  return rule;
}

}  // namespace gpunode::grammar::detail
