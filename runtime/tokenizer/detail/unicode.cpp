#include "runtime/tokenizer/detail/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <span>

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/detail/young_characters.hpp"

namespace gpunode::tokenizer::detail {
namespace {

utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool between(char32_t low, char32_t character, char32_t high) {
  return low <= character && character <= high;
}

bool is_among(std::span<const CharacterRange> ranges, char32_t character) {
  const auto after = std::ranges::upper_bound(ranges, character, {}, &CharacterRange::first);
  return after != ranges.begin() && character <= std::prev(after)->last;
}

// As older tables have it; of what is younger that it is nothing.
utf8proc_category_t old_category_of(char32_t character) {
  return is_among(kYoungCategories, character) ? UTF8PROC_CATEGORY_CN : category_of(character);
}

// Of a text without young forms.
std::string mapped(std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* made = nullptr;
  const auto bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                  static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  if (bytes < 0) return std::string(text);  // no text
  std::string result(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
  std::free(made);
  return result;
}

}  // namespace

std::size_t character_length(std::string_view text) {
  return std::max<std::size_t>(1, utf8_length(text));
}

char32_t take_character(std::string_view& text) {
  utf8proc_int32_t character = 0;
  const auto taken = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &character);
  text.remove_prefix(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(1, taken)));
  return taken > 0 ? static_cast<char32_t>(character) : U'\ufffd';
}

void append(std::string& text, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

bool is_whitespace(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return between(0x09, character, 0x0d) || character == 0x85;
  }
}

bool is_number(char32_t character) {
  const auto category = category_of(character);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t character) {
  if (character < 0x80)
    return between('!', character, '/') || between(':', character, '@') ||
           between('[', character, '`') || between('{', character, '~');
  const auto category = old_category_of(character);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME &&
         !is_among(kYoungMarks, character);
}

bool is_nonspacing_mark(char32_t character) {
  return old_category_of(character) == UTF8PROC_CATEGORY_MN;
}

bool is_control(char32_t character) {
  const auto category = old_category_of(character);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t character) {
  const auto category = category_of(character);
  // Letters and marks.
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME;
  const bool of_words = category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
                        category == UTF8PROC_CATEGORY_PC;
  // Letters in circles and squares are symbols, but alphabetic.
  const bool enclosed =
      between(0x24b6, character, 0x24e9) || between(0x1f130, character, 0x1f149) ||
      between(0x1f150, character, 0x1f169) || between(0x1f170, character, 0x1f189);
  const bool joins = character == 0x200c || character == 0x200d;
  return letter || of_words || enclosed || joins;
}

std::string lowered(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = take_character(text);
    if (character == 0x130) {  // the only one that becomes two
      append(made, 'i');
      append(made, 0x307);
      continue;
    }
    append(made, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
  }
  return made;
}

std::string normalised(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::c || form == NormalForm::kc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kc || form == NormalForm::kd) options |= UTF8PROC_COMPAT;
  std::string made;
  std::string_view rest = text, seen = text;  // `seen` ends before `rest` begins
  const auto map_seen = [&](std::string_view until) {
    made +=
        mapped(seen.substr(0, seen.size() - until.size()), static_cast<utf8proc_option_t>(options));
  };
  while (!rest.empty()) {
    const std::string_view here = rest;
    if (!is_among(kYoungForms, take_character(rest))) continue;
    map_seen(here);
    made += here.substr(0, here.size() - rest.size());
    seen = rest;
  }
  map_seen(rest);
  return made;
}

}  // namespace gpunode::tokenizer::detail
