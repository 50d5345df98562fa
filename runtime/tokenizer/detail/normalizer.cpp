#include "runtime/tokenizer/detail/normalizer.hpp"

#include <utility>

#include "runtime/tokenizer/detail/regex.hpp"
#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

using Made = Result<Normalizer>;

Normalizer always(std::function<std::string(std::string)> change) {
  return [change = std::move(change)](std::string text) -> Result<std::string> {
    return change(std::move(text));
  };
}

std::string without(std::string_view text, bool (*is)(char32_t)) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = take_character(text);
    if (!is(character)) append(made, character);
  }
  return made;
}

std::string_view without_leading_space(std::string_view text) {
  for (std::string_view rest = text; !rest.empty(); text = rest)
    if (!is_whitespace(take_character(rest))) break;
  return text;
}

std::string_view without_trailing_space(std::string_view text) {
  std::size_t end = 0;
  for (std::string_view rest = text; !rest.empty();)
    if (!is_whitespace(take_character(rest))) end = text.size() - rest.size();
  return text.substr(0, end);
}

// Ideographs, each of which BERT's vocabularies have by itself. Source: its tokenization.py.
bool is_ideograph(char32_t character) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (const auto& [low, high] : kBlocks)
    if (low <= character && character <= high) return true;
  return false;
}

std::string cleaned(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    const bool breaks = character == '\t' || character == '\n' || character == '\r';
    if (character == 0 || character == 0xfffd || (is_control(character) && !breaks)) continue;
    append(made, is_whitespace(character) ? U' ' : character);
  }
  return made;
}

std::string with_ideographs_apart(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    const bool apart = is_ideograph(character);
    if (apart) made += ' ';
    append(made, character);
    if (apart) made += ' ';
  }
  return made;
}

Made bert(const Json& json) {
  const bool lowercase = flag(json, "lowercase", true);
  return always([clean = flag(json, "clean_text", true),
                 apart = flag(json, "handle_chinese_chars", true),
                 strip = flag(json, "strip_accents", lowercase), lowercase](std::string text) {
    if (clean) text = cleaned(text);
    if (apart) text = with_ideographs_apart(text);
    if (strip) text = without(normalised(text, NormalForm::d), is_nonspacing_mark);
    return lowercase ? lowered(text) : text;
  });
}

Made strip(const Json& json) {
  return always([left = flag(json, "strip_left", true),
                 right = flag(json, "strip_right", true)](const std::string& text) {
    std::string_view kept = text;
    if (left) kept = without_leading_space(kept);
    if (right) kept = without_trailing_space(kept);
    return std::string(kept);
  });
}

Made replace(const Json& json) {
  auto find = make_finder(field(json, "pattern"));
  if (!find) return find.error();
  auto content = required_text(json, "content");
  if (!content) return content.error();
  return Normalizer([find = *std::move(find), content = *std::move(content)](
                        const std::string& text) -> Result<std::string> {
    const auto parts = find(text);
    if (!parts) return parts.error();
    std::string made;
    for (const Part& part : *parts)
      made += part.found ? content : text.substr(part.begin, part.end - part.begin);
    return made;
  });
}

Made prepend(const Json& json) {
  auto before = required_text(json, "prepend");
  if (!before) return before.error();
  return always([before = *std::move(before)](const std::string& text) {
    return text.empty() ? text : before + text;
  });
}

Made sequence(const Json& json) {
  auto steps = all_made(field(json, "normalizers"), make_normalizer);
  if (!steps) return steps.error();
  return Normalizer([steps = *std::move(steps)](std::string text) -> Result<std::string> {
    for (const Normalizer& step : steps) {
      auto done = step(std::move(text));
      if (!done) return done;
      text = *std::move(done);
    }
    return text;
  });
}

template <NormalForm kForm>
Made normal_form(const Json&) {
  return always([](const std::string& text) { return normalised(text, kForm); });
}

Made lowercase(const Json&) {
  return always([](const std::string& text) { return lowered(text); });
}

Made strip_accents(const Json&) {
  return always([](const std::string& text) { return without(text, is_mark); });
}

}  // namespace

Result<Normalizer> make_normalizer(const Json& json) {
  if (json.is_null()) return always([](std::string text) { return text; });
  static const Kinds<Made> kKinds{{"BertNormalizer", bert},
                                  {"Lowercase", lowercase},
                                  {"NFC", normal_form<NormalForm::c>},
                                  {"NFD", normal_form<NormalForm::d>},
                                  {"NFKC", normal_form<NormalForm::kc>},
                                  {"NFKD", normal_form<NormalForm::kd>},
                                  {"Prepend", prepend},
                                  {"Replace", replace},
                                  {"Sequence", sequence},
                                  {"Strip", strip},
                                  {"StripAccents", strip_accents}};
  return made_by_kind(kKinds, "normalizer", json);
}

Result<Finder> make_finder(const Json& pattern) {
  if (const Json& exact = field(pattern, "String"); exact.is_string())
    return exactly(exact.get<std::string>());
  const Json& expression = field(pattern, "Regex");
  if (!expression.is_string())
    return {ErrorCode::invalid_argument, "a pattern is neither a String nor a Regex"};
  auto regex = Regex::open(expression.get<std::string>());
  if (!regex) return regex.error();
  return Finder([regex = *std::move(regex)](std::string_view text) -> Result<Parts> {
    Parts parts;
    auto done =
        regex.each(text, [&](std::size_t begin, std::size_t end) { add_found(parts, begin, end); });
    if (!done) return done.error();
    add_rest(parts, text.size());
    return parts;
  });
}

}  // namespace gpunode::tokenizer::detail
