#include "runtime/security/detail/json_text.hpp"

#include "runtime/base/utf8.hpp"

#include <cstddef>
#include <cstdio>

namespace gpunode::security::detail {

namespace {

bool is_utf8(std::string_view text) {
  while (const std::size_t length = utf8_length(text)) text.remove_prefix(length);
  return text.empty();
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
