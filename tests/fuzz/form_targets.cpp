// Forms that a client asks for texts in, and texts of them.
#include "runtime/grammar/grammar.hpp"
#include "runtime/grammar/matcher.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace gpunode::fuzz {
namespace {

using namespace grammar;

constexpr std::size_t kMostSteps = 60;

const std::vector<std::string>& tokens() {
  static const auto made = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"", "\":", "\",\"", "\"}", "]}", "[[[", "{\"a\":{\"a\":", "true",
                             ", ", "\n  ", "name", "\xc3\xa9", "\\u00", "12"})
      texts.emplace_back(text);
    return texts;
  }();
  return made;
}

// Whatever a form is: a text of it never comes to where nothing may follow and it may not end, and what is
// said to follow does. The first byte says how to choose.
void run_form(ByteView input) {
  if (input.empty()) return;
  const auto form = parse_form(as_text(input.subspan(1)));
  if (!form) return;
  static const auto vocabulary = std::make_shared<const Vocabulary>(tokens());
  auto number = std::to_integer<std::size_t>(input[0]);
  Matcher text(*form);
  TokenMasks masks(vocabulary);
  for (std::size_t step = 0; step < kMostSteps && !text.must_end(); ++step) {
    const auto mask = masks.allowed(text);
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t token = 0; token < vocabulary->size(); ++token)
      if (mask[token / 64] >> token % 64 & 1) allowed.push_back(token);
    GPUNODE_CHECK(!allowed.empty() || text.may_end(), "a text of a form has come to a dead end");
    if (allowed.empty()) return;
    number = number * 31 + 7;
    const std::uint32_t token = allowed[number % allowed.size()];
    const auto added = text.add(tokens()[token]);
    if (!added && added.error().code == ErrorCode::resource_exhausted) return;
    GPUNODE_CHECK(added, "a token that may come next may not");
  }
}

std::vector<Bytes> forms() {
  return {
      text_bytes(R"(1{"type":"json_object"})"),
      text_bytes(R"(2{"type":"choice","choices":["yes","yes, but","no"]})"),
      text_bytes(R"(3{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":)"
                 R"("string","minLength":1,"maxLength":3},"b":{"type":["integer","null"]}},)"
                 R"("required":["b"],"additionalProperties":{"enum":[1,"x",null]}}})"),
      text_bytes(
          R"(4{"type":"json_schema","schema":{"$ref":"#/$defs/t","$defs":{"t":{"type":"array",)"
          R"("items":{"anyOf":[{"$ref":"#/$defs/t"},{"const":2.5},{"type":"boolean"}]},)"
          R"("minItems":1,"maxItems":2}}}})")};
}

}  // namespace

std::vector<Target> form_targets() {
  return {{"form", run_form, forms, std::size_t{32} << 20}};
}

}  // namespace gpunode::fuzz
