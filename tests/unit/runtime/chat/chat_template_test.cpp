#include "runtime/chat/chat_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::chat {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMessages =
    R"([{"role":"system","content":" Be brief. "},{"role":"user","content":"Hi"}])";

ChatInput input(std::string_view messages = kMessages) {
  using namespace std::chrono;
  ChatInput made;
  made.messages = messages;
  made.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  made.more = R"({"n":7,"f":2.5,"words":["b","A","c"],"user":{"name":"Ann","items":1}})";
  made.now = local_days(2025y / February / 27) + 9h + 5min + 7s;
  return made;
}

Result<std::string> rendered(std::string_view source, const ChatInput& given) {
  const auto made = ChatTemplate::parse(source);
  return made ? (*made)->render(given) : made.error();
}

// The rendering, or the error's code and words.
std::string text(std::string_view source, const ChatInput& given = input()) {
  const auto made = rendered(source, given);
  return made ? *made : made.error().message();
}

ErrorCode code(std::string_view source, const ChatInput& given = input()) {
  const auto made = rendered(source, given);
  EXPECT_FALSE(made) << source << " is rendered as " << *made;
  return made ? ErrorCode::internal : made.error().code;
}

TEST(ChatTemplate, a_chat_is_told_turn_by_turn) {
  const std::string_view source =
      "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message.content|trim + "
      "eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
  ChatInput given = input();
  EXPECT_EQ(text(source, given), "<|system|>Be brief.</s><|user|>Hi</s><|assistant|>");
  given.add_generation_prompt = false;
  EXPECT_EQ(text(source, given), "<|system|>Be brief.</s><|user|>Hi</s>");
}

TEST(ChatTemplate, what_is_not_given_is_none_or_undefined) {
  EXPECT_EQ(text("{{ tools }} {{ tools is defined }} {{ pad_token is defined }} [{{ missing }}]"),
            "None True False []");
  EXPECT_EQ(code("{{ missing.name }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplate, tools_are_told_as_transformers_writes_json) {
  ChatInput given = input();
  given.tools = R"([{"name":"é <b>","n":[1,2.0,null,true],"none":{}}])";
  EXPECT_EQ(text("{{ tools[0]|tojson }}", given),
            R"({"name": "é <b>", "n": [1, 2.0, null, true], "none": {}})");
  EXPECT_EQ(text("{{ tools|tojson(indent=2) }}", given),
            "[\n  {\n    \"name\": \"é <b>\",\n    \"n\": [\n      1,\n      2.0,\n      null,\n"
            "      true\n    ],\n    \"none\": {}\n  }\n]");
}

TEST(ChatTemplate, space_around_tags_goes_as_jinja_has_it) {
  EXPECT_EQ(text("a\n  {% if true %}\nb\n  {% endif %}\nc"), "a\nb\nc");
  EXPECT_EQ(text("a \n {%- if true -%} \n b {%+ endif +%}\nc"), "ab \nc");
  EXPECT_EQ(text("a {{- 1 -}} \n b {{ 2 }}\nc\n"), "a1b 2\nc");
  EXPECT_EQ(text("  {# note #}\nx {#- note -#} y"), "xy");
}

TEST(ChatTemplate, what_a_loop_sets_ends_with_its_turn) {
  EXPECT_EQ(
      text("{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"),
      "120");
  EXPECT_EQ(text("{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}"
                 "{% endfor %}{{ ns.x }}"),
            "3");
}

TEST(ChatTemplate, a_loop_knows_where_it_is) {
  EXPECT_EQ(text("{% for w in words %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}"
                 "{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}"),
            "12TrueFalseA;21FalseFalsebc;30FalseTrueA;");
  EXPECT_EQ(
      text("{% for w in words if w != 'A' %}{{ w }}{{ loop.length }}{% else %}none{% endfor %}"),
      "b2c2");
  EXPECT_EQ(text("{% for w in [] %}{{ w }}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(text("{% for w in words %}{% break %}{% else %}no turn to its end{% endfor %}"),
            "no turn to its end");
  EXPECT_EQ(text("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}"
                 "{% endif %}{{ i }}{% endfor %}"),
            "023");
}

TEST(ChatTemplate, macros_take_defaults_and_names) {
  EXPECT_EQ(text("{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}"
                 "{{ m() }}"),
            "[1x][32][x]");
  EXPECT_EQ(code("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplate, operators_have_the_meaning_of_python) {
  EXPECT_EQ(text("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 2 ** -1 }} {{ 1 + f }}"),
            "-4 2 3.5 8 0.5 3.5");
  EXPECT_EQ(text("{{ 1 < 2 < 3 }} {{ 'b' in 'abc' }} {{ 1 == 1.0 == true }} {{ not none or 1 }}"),
            "True True True True");
  EXPECT_EQ(text("{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ 'x' if false }}|"),
            "a1None abab [1, 2] |");
  EXPECT_EQ(text("{{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 100.0 }} {{ -0.0 }}"),
            "1e+16 1e-05 0.30000000000000004 100.0 -0.0");
  EXPECT_EQ(code("{{ 9223372036854775807 + 1 }}"), ErrorCode::unsupported);
  EXPECT_EQ(code("{{ 1 // 0 }}"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("{{ 'a' + 1 }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplate, texts_are_rows_of_characters) {
  ChatInput given = input();
  given.more = R"({"t":"né你😀"})";
  EXPECT_EQ(text("{{ t|length }}{{ t[1] }}{{ t[-1] }}{{ t[::-1] }}{{ t[1:3] }}", given),
            "4é😀😀你éné你");
  EXPECT_EQ(text("{{ t|upper }} {{ [t, '\\n\\'', \"a\"] }}", given),
            "NÉ你😀 ['né你😀', \"\\n'\", 'a']");
}

TEST(ChatTemplate, attributes_of_a_dict_are_its_methods_first) {
  EXPECT_EQ(text("{{ user['items'] }} {{ user.items()|list }} {{ user.name }} {{ user.none }}|"),
            "1 [('name', 'Ann'), ('items', 1)] Ann |");
  EXPECT_EQ(text("{{ user.get('x', 3) }}{{ words.append is defined }}"), "3False");
}

TEST(ChatTemplate, filters_give_each_value_once) {
  EXPECT_EQ(text("{% set s = messages|selectattr('role', 'equalto', 'user') %}{{ s|list|length }}"
                 "{{ s|list|length }}"),
            "10");
  EXPECT_EQ(
      text("{{ words|sort }}{{ words|map('upper')|join(',') }}{{ words|reject('eq', 'b')|list }}"),
      "['A', 'b', 'c']B,A,C['A', 'c']");
}

TEST(ChatTemplate, the_date_is_what_it_is_given) {
  EXPECT_EQ(text("{{ strftime_now('%d %b %Y, %B %-d, %H:%M:%S %A') }}"),
            "27 Feb 2025, February 27, 09:05:07 Thursday");
  EXPECT_EQ(code("{{ strftime_now('%Z') }}"), ErrorCode::unsupported);
}

TEST(ChatTemplate, the_template_may_refuse_in_its_own_words) {
  const auto made = rendered("\n{{ raise_exception('roles must alternate') }}", input());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(made.error().detail,
            "chat template, line 2: the template refuses: roles must alternate");
}

TEST(ChatTemplate, what_is_not_known_is_refused_by_name_when_it_is_read) {
  for (const auto& [source, name] : std::vector<std::pair<std::string, std::string>>{
           {"{% include 'x' %}", "include"},
           {"\n{% raw %}x{% endraw %}", "line 2: the tag {% raw %}"},
           {"{{ x|groupby('a') }}", "groupby"},
           {"{{ x is filter }}", "the test 'filter'"},
           {"{{ x.zfill(3) }}", "zfill"},
           {"{{ x.__class__ }}", "__class__"},
           {"{% for i in x recursive %}{% endfor %}", "recursive"},
           {"{% call m() %}{% endcall %}", "call"},
           {"{{ f(*x) }}", "'*'"}}) {
    const auto made = ChatTemplate::parse(source);
    ASSERT_FALSE(made) << source;
    EXPECT_EQ(made.error().code, ErrorCode::unsupported) << source;
    EXPECT_THAT(made.error().detail, HasSubstr(name)) << source;
  }
}

TEST(ChatTemplate, a_text_marked_as_safe_is_printed_and_no_more) {
  EXPECT_EQ(
      text("{% set x = words|tojson|safe if true else 1 %}{{ x }}{{ x is string }}{{ x ~ 1 }}"),
      R"(["b", "A", "c"]True["b", "A", "c"]1)");
  for (const char* source :
       {"{{ ('a'|safe) + 'b' }}", "{{ ('a'|safe)|trim }}", "{{ ('a'|safe).upper() }}",
        "{{ ('a'|safe) == 'a' }}", "{{ ['a'|safe] }}"})
    EXPECT_EQ(code(source), ErrorCode::unsupported) << source;
}

TEST(ChatTemplate, what_is_no_template_is_refused) {
  for (const char* source :
       {"{% if true %}", "{{ 1 ", "{{ (1] }}", "{% endif %}", "{{ }}", "{# x", "{% set 1 = 2 %}",
        "{{ 'x }}", "{% break %}", "{% for loop in x %}{% endfor %}"})
    EXPECT_EQ(code(source), ErrorCode::invalid_argument) << source;
  EXPECT_EQ(code("\xff"), ErrorCode::invalid_argument);
}

TEST(ChatTemplate, what_is_no_json_is_refused) {
  EXPECT_EQ(code("x", input("[{]")), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x", input("[99999999999999999999]")), ErrorCode::unsupported);
  EXPECT_EQ(code("x", input(std::string(500, '['))), ErrorCode::resource_exhausted);
}

TEST(ChatTemplate, a_hostile_template_is_bounded) {
  for (const char* source :
       {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ range(1000000000) }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "{{ 'a' * 10000000000 }}",
        "{{ [1] * 10000000000 }}", "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = ns.x|map('trim') "
        "%}{% endfor %}"})
    EXPECT_EQ(code(source), ErrorCode::resource_exhausted) << source;
  std::string deep, closed, wide = "{{ 1";
  for (int i = 0; i < 5000; ++i) {
    deep += "(";
    closed += ")";
    wide += "+1";
  }
  EXPECT_EQ(code("{{ " + deep + "1" + closed + " }}"), ErrorCode::resource_exhausted);
  EXPECT_EQ(code(wide + " }}"), ErrorCode::resource_exhausted);
  EXPECT_EQ(code(std::string(2 << 20, 'x')), ErrorCode::resource_exhausted);
}

TEST(ChatTemplate, what_holds_itself_goes_with_the_rendering) {
  EXPECT_EQ(
      text("{% set ns = namespace() %}{% set ns.self = ns %}{% macro m() %}{{ ns.self is defined }}"
           "{% endmacro %}{% set ns.m = m %}{{ ns.m() }}"),
      "True");
}

TEST(ChatTemplate, an_answer_of_the_model_is_marked_by_nothing) {
  EXPECT_EQ(text("a{% generation %}b{% endgeneration %}c"), "abc");
}

}  // namespace
}  // namespace gpunode::chat
