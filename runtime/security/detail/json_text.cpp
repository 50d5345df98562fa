#include "runtime/security/detail/json_text.hpp"

#include <cstddef>
#include <cstdio>

namespace gpunode::security::detail {

namespace {

// Length of the well-formed UTF-8 sequence at the front, 0 if there is none. Source: RFC 3629.
std::size_t sequence_length(std::string_view text) {
  auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  unsigned char lead = byte(0);
  std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || lead > 0xf4 || length > text.size()) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return 0;
  }
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

std::string json_text(std::string_view bytes) {
  bool keep = is_utf8(bytes);
  std::string out = "\"";
  for (char letter : bytes) {
    auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !keep)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + '"';
}

}  // namespace gpunode::security::detail
