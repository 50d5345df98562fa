// Random texts of random schemas: all that the masks let through is valid JSON of the schema, and what is
// valid is let through, token by token in any cut.
#include "runtime/grammar/matcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.hpp"
#include "runtime/grammar/grammar.hpp"

namespace gpunode::grammar {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return mix(seed_, ++draws_) % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t seed_, draws_ = 0;
};

const char* const kWords[] = {"a",  "name", "n\"q",      "\u00e9t\u00e9",
                              "na", "\\",   "long name", "\U0001f600"};

Json random_schema(Dice& dice, int depth) {
  const auto inner = [&] { return random_schema(dice, depth - 1); };
  switch (dice.below(depth > 0 ? 12 : 7)) {
    case 0:
      return {{"type", "string"}};
    case 1: {
      const auto least = dice.below(3);
      return {{"type", "string"}, {"minLength", least}, {"maxLength", least + dice.below(4)}};
    }
    case 2:
      return {{"type", "integer"}, {"title", "a number"}};
    case 3:
      return {{"type", {"number", "null"}}};
    case 4:
      return {{"enum", {kWords[dice.below(8)], "other", 5, nullptr, {1, 2}}}};
    case 5:
      return {{"const", kWords[dice.below(8)]}};
    case 6:
      return {{"type", "boolean"}};
    case 7: {
      const auto least = dice.below(3);
      Json made{{"type", "array"}, {"items", inner()}, {"minItems", least}};
      if (dice.one_in(2)) made["maxItems"] = least + dice.below(3);
      return made;
    }
    case 8:
      return {{"anyOf", {inner(), inner()}}};
    case 9:
      return dice.one_in(2) ? Json{{"type", "object"}} : Json(true);
    default: {
      Json made{{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
      for (const char* word : kWords)
        if (dice.one_in(3)) {
          made["properties"][word] = inner();
          if (dice.one_in(2)) made["required"].push_back(word);
        }
      if (dice.one_in(3)) made["additionalProperties"] = inner();
      return made;
    }
  }
}

std::size_t characters_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char one) { return (static_cast<unsigned char>(one) & 0xc0) != 0x80; }));
}

bool is_valid(const Json& value, const Json& schema, const Json& whole);

bool has_type(const Json& value, const Json& type) {
  if (type.is_array())
    return std::ranges::any_of(type, [&](const Json& one) { return has_type(value, one); });
  return type == value.type_name() || (type == "integer" && value.is_number_integer());
}

bool is_valid_object(const Json& value, const Json& schema, const Json& whole) {
  for (const Json& name : schema.value("required", Json::array()))
    if (!value.contains(name.get<std::string>())) return false;
  for (const auto& [name, inner] : value.items()) {
    const bool is_known = schema.contains("properties") && schema["properties"].contains(name);
    if (is_known ? !is_valid(inner, schema["properties"][name], whole)
                 : schema.contains("additionalProperties") &&
                       !is_valid(inner, schema["additionalProperties"], whole))
      return false;
  }
  return true;
}

bool is_valid(const Json& value, const Json& schema, const Json& whole) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref"))
    return is_valid(
        value, whole.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), whole);
  if (schema.contains("anyOf"))
    return std::ranges::any_of(schema["anyOf"],
                               [&](const Json& one) { return is_valid(value, one, whole); });
  if (schema.contains("const")) return value == schema["const"];
  if (schema.contains("enum"))
    return std::ranges::find(schema["enum"], value) != schema["enum"].end();
  if (schema.contains("type") && !has_type(value, schema["type"])) return false;
  if (value.is_object()) return is_valid_object(value, schema, whole);
  const std::size_t size = value.is_string()  ? characters_of(value.get<std::string>())
                           : value.is_array() ? value.size()
                                              : 0;
  const char* const least = value.is_string() ? "minLength" : "minItems";
  const char* const most = value.is_string() ? "maxLength" : "maxItems";
  if (size < schema.value(least, std::size_t{0}) || size > schema.value(most, std::size_t{1} << 40))
    return false;
  return !value.is_array() || !schema.contains("items") ||
         std::ranges::all_of(
             value, [&](const Json& one) { return is_valid(one, schema["items"], whole); });
}

// Tokens as a model has them: all bytes, pieces of JSON over several of its parts, halves of characters.
std::vector<std::string> tokens() {
  std::vector<std::string> made{""};
  for (int byte = 0; byte < 256; ++byte) made.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* text : {"{\"",      "\":",
                           "\": ",     "\",",
                           "\", \"",   "\"}",
                           "\"]",      "},",
                           "}}",       "]]",
                           "[[",       "[{\"",
                           "{}",       "[]",
                           "true",     "false",
                           "null",     "tru",
                           ", ",       ": ",
                           "\n  ",     "name",
                           " name",    "name\":",
                           "\"name",   "\xc3\xa9",
                           "\xf0\x9f", "\x98\x80",
                           "\\u",      "\\\"",
                           "00",       "12",
                           "-1",       ".5",
                           "e1",       "a",
                           "na",       "\u00e9t\u00e9\"",
                           "other\"",  "\"other\",",
                           "<|end|>"})
    made.push_back(text);
  made.back() = "";  // one that no text has
  return made;
}

std::shared_ptr<const Automaton> form_of(const Json& schema) {
  auto made = parse_form(Json{{"type", "json_schema"}, {"schema", schema}}.dump());
  EXPECT_TRUE(made) << made.error().message() << schema;
  return made ? *made : nullptr;
}

bool takes(const std::shared_ptr<const Automaton>& form, const std::string& text) {
  Matcher matcher(form);
  return matcher.add(text) && matcher.may_end();
}

class Masks : public ::testing::Test {
 protected:
  bool allows(TokenMasks::Mask mask, std::size_t token) const {
    return mask[token / 64] >> token % 64 & 1;
  }
  // What may come by asking of each token alone.
  void expect_mask(const std::shared_ptr<const Automaton>& form, const std::string& text) {
    Matcher matcher(form);
    ASSERT_TRUE(matcher.add(text));
    const auto mask = masks_.allowed(matcher);
    for (std::size_t token = 0; token < tokens_.size(); ++token) {
      Matcher one(form);
      ASSERT_TRUE(one.add(text));
      const bool goes_on = !tokens_[token].empty() && one.add(tokens_[token]);
      ASSERT_EQ(allows(mask, token), goes_on) << text << " + " << tokens_[token];
    }
  }
  std::string random_text(const std::shared_ptr<const Automaton>& form, Dice& dice) {
    Matcher matcher(form);
    std::string text;
    for (int count = 0; !matcher.must_end(); ++count) {
      const auto mask = masks_.allowed(matcher);
      std::vector<std::size_t> allowed;
      for (std::size_t token = 0; token < tokens_.size(); ++token)
        if (allows(mask, token)) allowed.push_back(token);
      EXPECT_FALSE(allowed.empty()) << "a dead end behind " << text;
      if (allowed.empty()) break;
      if (matcher.may_end() && dice.one_in(4)) break;
      // After a while what closes goes first, so that a text has an end.
      std::size_t token = allowed[dice.below(allowed.size())];
      if (count > 40)
        for (const std::size_t one : allowed)
          if (tokens_[one] == "}" || tokens_[one] == "]") token = one;
      if (count > 40 && allows(mask, 1 + '"')) token = 1 + '"';
      EXPECT_TRUE(matcher.add(tokens_[token])) << text << " + " << tokens_[token];
      text += tokens_[token];
      if (text.size() > 20'000) {
        ADD_FAILURE() << "does not come to an end: " << text.substr(0, 300);
        break;
      }
    }
    EXPECT_TRUE(matcher.may_end());
    return text;
  }

  const std::vector<std::string> tokens_ = tokens();
  TokenMasks masks_{std::make_shared<Vocabulary>(tokens_)};
};

TEST_F(Masks, let_through_only_json_of_the_schema) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const Json schema = random_schema(dice, 3);
    const auto form = form_of(schema);
    ASSERT_TRUE(form);
    for (int count = 0; count < 5; ++count) {
      const std::string text = random_text(form, dice);
      const Json value = Json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << seed << ": " << text << " by " << schema;
      ASSERT_TRUE(is_valid(value, schema, schema)) << seed << ": " << text << " by " << schema;
    }
  }
}

TEST_F(Masks, are_those_of_each_token_alone) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    const auto form = form_of(random_schema(dice, 2));
    const std::string text = random_text(form, dice);
    for (std::size_t length = 0; length < text.size(); length += 1 + dice.below(5))
      ASSERT_NO_FATAL_FAILURE(expect_mask(form, text.substr(0, length))) << seed;
  }
}

TEST_F(Masks, come_to_an_end_however_deep_a_text_goes) {
  const auto form = *parse_form(R"({"type": "json_object"})");
  Matcher matcher(form);
  std::string text = "{\"a\":";
  ASSERT_TRUE(matcher.add(text));
  std::size_t depth = 0;
  while (allows(masks_.allowed(matcher), 1 + '[') && depth < 10'000) {
    ASSERT_TRUE(matcher.add("["));
    text += "[";
    ++depth;
  }
  EXPECT_GT(depth, 60u);
  EXPECT_LT(depth, 300u);
  expect_mask(form, text);
  expect_mask(form, text.substr(0, text.size() - 1));
  EXPECT_FALSE(Matcher(form).add(text + "["));
  EXPECT_TRUE(takes(form, text + std::string(depth, ']') + "}"));
}

TEST_F(Masks, are_the_same_again_whatever_was_forgotten) {
  const auto form = *parse_form(R"({"type": "json_object"})");
  Matcher matcher(form);
  ASSERT_TRUE(matcher.add("{"));
  std::string value = "0";
  for (int depth = 0; depth < 60; ++depth)
    value = "[" + value + ",{\"a\":" + std::to_string(depth) + "}]";
  for (int number = 0; number < 400; ++number)
    ASSERT_TRUE(matcher.add("\"k\": " + value + ", ")) << number;
  Matcher fresh(form);
  ASSERT_TRUE(fresh.add("{\"k\": 1, "));
  const auto mask = masks_.allowed(matcher);
  const std::vector<std::uint64_t> kept(mask.begin(), mask.end());
  const auto other = masks_.allowed(fresh);
  EXPECT_TRUE(std::ranges::equal(kept, other));
}

// Json with spaces wherever they may stand, and some letters as escapes.
std::string loosely(const Json& value, Dice& dice) {
  const auto space = [&] {
    const char* const kSpaces[] = {"", "", " ", "\n\t", "  \r\n"};
    return std::string(kSpaces[dice.below(5)]);
  };
  if (!value.is_structured()) return value.dump();
  std::string text(value.is_object() ? "{" : "[");
  text += space();
  bool first = true;
  for (const auto& [name, inner] : value.items()) {
    if (!std::exchange(first, false)) text += "," + space();
    if (value.is_object()) text += Json(name).dump() + space() + ":" + space();
    text += loosely(inner, dice) + space();
  }
  return text + (value.is_object() ? "}" : "]");
}

// A value of the schema; nothing for those that this does not make.
Json random_value(const Json& schema, Dice& dice) {
  if (schema.is_boolean()) return {{"any", {1, "x", nullptr}}};
  if (schema.contains("anyOf")) return random_value(schema["anyOf"][dice.below(2)], dice);
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("enum")) return schema["enum"][dice.below(schema["enum"].size())];
  const Json type = schema["type"];
  if (type == "boolean") return dice.one_in(2);
  if (type == "integer") return static_cast<std::int64_t>(dice.below(1000)) - 500;
  if (type.is_array())
    return dice.one_in(2) ? Json() : Json(0.25 * static_cast<double>(dice.below(9)));
  const char* const least = type == "string" ? "minLength" : "minItems";
  const char* const most = type == "string" ? "maxLength" : "maxItems";
  const std::size_t low = schema.value(least, std::size_t{0});
  const std::size_t size = low + dice.below(schema.value(most, low + 3) - low + 1);
  if (type == "string") {
    std::string text;
    for (std::size_t at = 0; at < size; ++at)
      text += std::array{"a", "\u00e9", "\"", "\n", "\U0001f600"}[dice.below(5)];
    return text;
  }
  if (type == "array") {
    auto list = Json::array();
    while (list.size() < size) list.push_back(random_value(schema["items"], dice));
    return list;
  }
  auto object = Json::object();
  const Json needed = schema.value("required", Json::array());
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, inner] : properties.items())
    if (std::ranges::find(needed, Json(name)) != needed.end() || dice.one_in(2))
      object[name] = random_value(inner, dice);
  if (schema.contains("additionalProperties"))
    object["extra"] = random_value(schema["additionalProperties"], dice);
  return object;
}

TEST(Matcher, takes_every_json_of_the_schema_tight_or_loose) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Dice dice(seed);
    const Json schema = random_schema(dice, 3);
    const auto form = form_of(schema);
    ASSERT_TRUE(form);
    const Json value = random_value(schema, dice);
    ASSERT_TRUE(is_valid(value, schema, schema)) << value << " by " << schema;
    ASSERT_TRUE(takes(form, value.dump())) << seed << ": " << value << " by " << schema;
    if (schema.contains("enum") || value.dump().find('[') != std::string::npos)
      continue;  // as given
    const std::string text = loosely(value, dice);
    ASSERT_TRUE(takes(form, text)) << seed << ": " << text << " by " << schema;
  }
}

TEST(Matcher, takes_what_json_takes_and_nothing_else) {
  const auto form = form_of(Json(true));
  for (const char* good :
       {"0", "-0", "12", "-1.5e+10", "1E9", "\"\"", "\"\\u00e9 \\ud83d\\ude00 \\n\"", "[]",
        "[ 1 , 2 ]", "{}", " {\"a\" : {\"b\":[null,true,false]} }", "\"\u00e9\U0001f600\"",
        "123456789012345678"})
    EXPECT_TRUE(takes(form, good)) << good;
  for (const char* bad : {"",
                          "01",
                          "+1",
                          "1.",
                          ".5",
                          "1e",
                          "\"a",
                          "\"\\x\"",
                          "\"\\ud800\"",
                          "\"\\ud83da\"",
                          "[1,]",
                          "{\"a\"}",
                          "{a:1}",
                          "nul",
                          "[1] ",
                          "\"\x01\"",
                          "\"\xff\"",
                          "\"\xc0\x80\"",
                          "\"\xed\xa0\x80\"",
                          "{,}",
                          "[,]"})
    EXPECT_FALSE(takes(form, bad)) << bad;
}

TEST(Matcher, follows_references_into_themselves) {
  const Json schema = Json::parse(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
      "properties": {"value": {"type": "integer"},
                     "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
      "required": ["value"]}}})");
  const auto form = form_of(schema);
  EXPECT_TRUE(
      takes(form, R"({"value": 1, "children": [{"value": 2}, {"value": 3, "children": []}]})"));
  EXPECT_FALSE(takes(form, R"({"value": 1, "children": [{"children": []}]})"));
}

TEST(Matcher, keeps_other_names_apart_from_those_that_are_known) {
  const auto form =
      form_of(Json::parse(R"({"type": "object", "properties": {"a": {"type": "integer"},
      "abc": {"type": "integer"}, "ét": {"type": "null"}}, "additionalProperties": {"type": "string"}})"));
  for (const char* good : {R"({"a":1,"b":"x"})", R"({"ab":"x","abcd":"y","é":"z"})", R"({"":"x"})",
                           R"({"a":1,"abc":2,"ét":null,"z":"x"})"})
    if (std::string(good).find("\"é\"") == std::string::npos) {
      EXPECT_TRUE(takes(form, good)) << good;
    }
  for (const char* bad :
       {R"({"a":"x"})", R"({"b":1})", R"({"b":"x","a":"y"})", R"({"abc":"x"})", R"({"ét":"x"})"})
    EXPECT_FALSE(takes(form, bad)) << bad;
}

TEST(Matcher, takes_one_of_the_choices) {
  const auto form = *parse_form(R"({"type": "choice", "choices": ["yes", "yes, but", "no"]})");
  for (const char* good : {"yes", "yes, but", "no"}) EXPECT_TRUE(takes(form, good));
  for (const char* bad : {"", "ye", " yes", "yes,", "nope"}) EXPECT_FALSE(takes(form, bad));
  Matcher matcher(form);
  ASSERT_TRUE(matcher.add("no"));
  EXPECT_TRUE(matcher.must_end());
}

}  // namespace
}  // namespace gpunode::grammar
