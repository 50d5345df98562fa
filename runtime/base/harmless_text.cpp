#include "runtime/base/harmless_text.hpp"

#include <cstdio>

#include "runtime/base/utf8.hpp"

namespace gpunode {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Of a well-formed sequence, as utf8_length() measured it.
char32_t character_of(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return lead;
  char32_t character = lead & (0x7fu >> sequence.size());
  for (const char next : sequence.substr(1))
    character = character << 6 | (static_cast<unsigned char>(next) & 0x3fu);
  return character;
}

bool is_white_space(char32_t one) {
  return (one >= U'\t' && one <= U'\r') || one == 0x85 || one == 0x2028 || one == 0x2029;
}

// Control characters of C0 and C1, and those by which Unicode changes the direction of writing.
// Source: Unicode 15, Bidi_Control.
bool is_control(char32_t one) {
  return one < 0x20 || (one >= 0x7f && one < 0xa0) || one == 0x061c || one == 0x200e ||
         one == 0x200f || (one >= 0x2028 && one <= 0x202e) || (one >= 0x2066 && one <= 0x2069);
}

std::string replaced(std::string_view text, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    const char32_t one = length == 0 ? 0 : character_of(sequence);
    const bool is_kept_end = keeps_lines && (one == U'\n' || one == U'\t');
    if (length == 0)
      out += kReplacement;
    else if (!is_control(one) || is_kept_end)
      out += sequence;
    else
      out += is_white_space(one) ? " " : kReplacement;
    text.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace

std::string harmless(std::string_view text) {
  return replaced(text, false);
}

std::string harmless_lines(std::string_view text) {
  return replaced(text, true);
}

std::string harmless_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const std::size_t length = utf8_length(json);
    const std::string_view sequence = json.substr(0, length == 0 ? 1 : length);
    const char32_t one = length == 0 ? 0xfffd : character_of(sequence);
    // Below DEL a JSON library has escaped what is in a text, and the rest is its own layout.
    if (length == 0 || (one >= 0x7f && is_control(one))) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(one));
      out += escaped;
    } else {
      out += sequence;
    }
    json.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace gpunode
