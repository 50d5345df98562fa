// Texts as rows of Unicode characters, in UTF-8, with Python's meaning of white space, of capital and
// small letters and of what can be printed, by utf8proc's tables. All texts are well-formed. Stateless.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpunode::chat::detail {

std::int64_t character_count(std::string_view text);
// Takes the first character off a text that has one: its bytes, or its number.
std::string take_character_bytes(std::string_view& text);
char32_t take_character(std::string_view& text);
void append_character(std::string& text, char32_t character);
std::vector<char32_t> characters_of(std::string_view text);
std::string text_of(const std::vector<char32_t>& characters);

bool is_space(char32_t character);
bool is_decimal(char32_t character);  // a digit, of whatever script
bool is_printable(char32_t character);
// One that has a capital and a small form, or is one.
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_title(char32_t character);

// Throw unsupported for the few characters whose other form is more than one, or depends on its place.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalised(std::string_view text);  // the first large, all others small
std::string titled(std::string_view text);       // so each word

struct Sides {
  bool left = true, right = true;
};
std::string_view stripped(std::string_view text, Sides sides = {});
// Off the characters of `set`.
std::string_view stripped(std::string_view text, std::string_view set, Sides sides = {});
// Where a text begins with a line's end: its bytes, else 0. As Python's splitlines has it.
std::size_t line_end(std::string_view text);

}  // namespace gpunode::chat::detail
