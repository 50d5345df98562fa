// What Unicode says of characters, and its normal forms, by utf8proc's tables. Texts are UTF-8; a
// byte that is none counts as a character by itself. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace gpunode::tokenizer::detail {

// Bytes of the first character of a text that has one.
std::size_t character_length(std::string_view text);
// Takes the first character off a text that has one; U+FFFD where it is none.
char32_t take_character(std::string_view& text);
void append(std::string& text, char32_t character);

bool is_whitespace(char32_t character);   // White_Space
bool is_number(char32_t character);       // N: digits, and what else counts
bool is_punctuation(char32_t character);  // P, and all that ASCII has between letters and digits
bool is_mark(char32_t character);         // M
bool is_nonspacing_mark(char32_t character);  // Mn
bool is_control(char32_t character);          // Cc, Cf and Co
// Part of a word, as regular expressions have it. Source: Unicode TR 18, annex C.
bool is_word(char32_t character);

// Character by character, so that the place in a word makes no difference.
std::string lowered(std::string_view text);

enum class NormalForm { c, d, kc, kd };
std::string normalised(std::string_view text, NormalForm form);

}  // namespace gpunode::tokenizer::detail
