// What is no form, or one that is not known here, is refused with what and where.
#include "runtime/grammar/grammar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::grammar {
namespace {

using ::testing::HasSubstr;

Error refusal(const std::string& form) {
  const auto made = parse_form(form);
  EXPECT_FALSE(made) << form;
  return made ? Error{} : made.error();
}
Error schema_refusal(const std::string& schema) {
  return refusal(R"({"type": "json_schema", "schema": )" + schema + "}");
}

TEST(Grammar, refuses_what_is_no_form) {
  for (const char* form :
       {"", "5", "{", "[]", "{}", R"({"type": 5})", R"({"type": "json_schema"})",
        R"({"type": "choice"})", R"({"type": "choice", "choices": []})",
        R"({"type": "choice", "choices": [1]})", R"({"type": "choice", "choices": ["a", ""]})"})
    EXPECT_EQ(refusal(form).code, ErrorCode::invalid_argument) << form;
  EXPECT_THAT(refusal(R"({"type": "json_objekt"})").detail,
              HasSubstr("did you mean 'json_object'"));
}

TEST(Grammar, names_the_keyword_that_it_does_not_know_and_its_path) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "string", "pattern": "a"})", "#/pattern"},
      {R"({"type": "integer", "minimum": 1})", "#/minimum"},
      {R"({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}})",
       "#/properties/a/format"},
      {R"({"type": "array", "items": {"oneOf": []}})", "#/items/oneOf"},
      {R"({"anyOf": [true, {"allOf": []}]})", "#/anyOf/1/allOf"},
      {R"({"anyOf": [true], "type": "string"})", "#/type"},
      {R"({"properties": {}})", "#/properties"},
      {R"({"enum": [1], "minLength": 2})", "#/minLength"},
      {R"({"$ref": "#", "type": "string"})", "#/type"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"not": {}}}})", "#/$defs/a/not"}};
  for (const auto& [schema, path] : cases) {
    EXPECT_EQ(schema_refusal(schema).code, ErrorCode::unsupported) << schema;
    EXPECT_THAT(schema_refusal(schema).detail, HasSubstr(path)) << schema;
  }
}

TEST(Grammar, refuses_schemas_that_make_no_sense) {
  for (const char* schema :
       {"5", "false", R"({"type": "sting"})", R"({"type": []})", R"({"type": [5]})",
        R"({"type": "string", "minLength": -1})",
        R"({"type": "string", "minLength": 3, "maxLength": 2})", R"({"enum": []})",
        R"({"enum": 5})", R"({"enum": ["a"], "type": "integer"})", R"({"anyOf": []})",
        R"({"type": "object", "properties": 5})", R"({"$ref": "#/$defs/none"})", R"({"$ref": 5})",
        R"({"$ref": "http://elsewhere/"})", R"({"$ref": "#/$defs/~9"})"})
    EXPECT_EQ(schema_refusal(schema).code, ErrorCode::invalid_argument) << schema;
  EXPECT_THAT(schema_refusal(R"({"type": "sting"})").detail, HasSubstr("did you mean 'string'"));
}

TEST(Grammar, refuses_what_leads_to_itself_or_has_no_end) {
  EXPECT_THAT(schema_refusal(R"({"$ref": "#"})").detail, HasSubstr("leads to itself"));
  EXPECT_THAT(schema_refusal(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})").detail,
              HasSubstr("leads to itself"));
  EXPECT_THAT(schema_refusal(R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})").detail,
              HasSubstr("no text has this form"));
  EXPECT_TRUE(parse_form(
      R"({"type": "json_schema", "schema": {"type": "array", "items": {"$ref": "#"}}})"));
}

TEST(Grammar, bounds_what_a_form_takes) {
  const auto nested = [](int depth) {
    std::string schema = "true";
    for (int at = 0; at < depth; ++at) schema = R"({"type": "array", "items": )" + schema + "}";
    return schema;
  };
  EXPECT_TRUE(parse_form(R"({"type": "json_schema", "schema": )" + nested(60) + "}"));
  for (const std::string& schema :
       {nested(70), std::string(R"({"type": "string", "maxLength": 16000})"),
        std::string(R"({"type": "string", "maxLength": 99999999})"),
        R"({"const": ")" + std::string(20000, 'a') + "\"}"})
    EXPECT_EQ(schema_refusal(schema).code, ErrorCode::resource_exhausted) << schema.substr(0, 60);
  EXPECT_EQ(schema_refusal(nested(200)).code, ErrorCode::invalid_argument);
  EXPECT_EQ(refusal(std::string(70'000, ' ')).code, ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace gpunode::grammar
