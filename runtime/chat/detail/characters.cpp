#include "runtime/chat/detail/characters.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "runtime/base/utf8.hpp"
#include "runtime/chat/detail/budget.hpp"

namespace gpunode::chat::detail {
namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

// Characters whose large form is several, by Unicode's SpecialCasing; in Greek with iota below also
// those near them.
bool has_special_upper(char32_t c) {
  return c == 0x149 || c == 0x1f0 || c == 0x390 || c == 0x3b0 || c == 0x587 ||
         (c >= 0x1e96 && c <= 0x1e9a) || (c >= 0x1f50 && c <= 0x1f56) ||
         (c >= 0x1f80 && c <= 0x1ffc) || (c >= 0xfb00 && c <= 0xfb17);
}

void append_upper(std::string& text, char32_t c) {
  if (has_special_upper(c)) not_known("the large form of a letter as this one's");
  if (c == 0xdf)
    text += "SS";
  else
    append_character(text, static_cast<char32_t>(utf8proc_toupper(static_cast<int>(c))));
}

void append_lower(std::string& text, char32_t c) {
  if (c == 0x3a3) not_known("the small form of a capital sigma");
  if (c == 0x130)
    text += "i\u0307";
  else
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<int>(c))));
}

void append_title(std::string& text, char32_t c) {
  if (has_special_upper(c) || c == 0xdf) not_known("the large form of a letter as this one's");
  append_character(text, static_cast<char32_t>(utf8proc_totitle(static_cast<int>(c))));
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<int>(c));
}

template <class Take>
std::string_view stripped_if(std::string_view text, Sides sides, Take take) {
  while (sides.left && !text.empty()) {
    std::string_view rest = text;
    if (!take(take_character(rest))) break;
    text = rest;
  }
  while (sides.right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (!starts_character(text[at])) --at;
    std::string_view last = text.substr(at);
    if (!take(take_character(last))) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

std::int64_t character_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(), starts_character);
}

std::string take_character_bytes(std::string_view& text) {
  const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
  std::string bytes(text.substr(0, length));
  text.remove_prefix(length);
  return bytes;
}

char32_t take_character(std::string_view& text) {
  const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  char32_t character = byte(0);
  if (length > 1) {
    character &= 0x7fu >> length;
    for (std::size_t at = 1; at < length; ++at) character = character << 6 | (byte(at) & 0x3fu);
  }
  text.remove_prefix(length);
  return character;
}

void append_character(std::string& text, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<int>(c), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters;
  while (!text.empty()) characters.push_back(take_character(text));
  return characters;
}

std::string text_of(const std::vector<char32_t>& characters) {
  std::string text;
  for (const char32_t c : characters) append_character(text, c);
  return text;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL;
}
bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

std::string upper(std::string_view text) {
  std::string made;
  while (!text.empty()) append_upper(made, take_character(text));
  return made;
}

std::string lower(std::string_view text) {
  std::string made;
  while (!text.empty()) append_lower(made, take_character(text));
  return made;
}

std::string capitalised(std::string_view text) {
  std::string made;
  if (!text.empty()) append_title(made, take_character(text));
  while (!text.empty()) append_lower(made, take_character(text));
  return made;
}

std::string titled(std::string_view text) {
  std::string made;
  bool in_word = false;
  while (!text.empty()) {
    const char32_t c = take_character(text);
    in_word ? append_lower(made, c) : append_title(made, c);
    in_word = is_upper(c) || is_lower(c) || is_title(c);
  }
  return made;
}

std::string_view stripped(std::string_view text, Sides sides) {
  return stripped_if(text, sides, is_space);
}

std::string_view stripped(std::string_view text, std::string_view set, Sides sides) {
  std::vector<char32_t> off = characters_of(set);
  std::sort(off.begin(), off.end());
  return stripped_if(text, sides,
                     [&](char32_t c) { return std::binary_search(off.begin(), off.end(), c); });
}

std::size_t line_end(std::string_view text) {
  if (text.empty()) return 0;
  if (text.starts_with("\r\n")) return 2;
  std::string_view rest = text;
  const char32_t c = take_character(rest);
  const bool ends =
      (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
  return ends ? text.size() - rest.size() : 0;
}

}  // namespace gpunode::chat::detail
