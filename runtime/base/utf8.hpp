// Where the characters of a text end, for those who must not pass on what is no text. Stateless.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpunode {

// Length of the well-formed UTF-8 sequence at the front of a text; 0 if there is none.
// Source: RFC 3629.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = text.empty() ? 0xff : byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                                           : 4;
  if (length == 0 || lead > 0xf4 || length > text.size()) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return 0;
  }
  // Too long for what they say, of half a pair, or beyond the last character.
  const bool bad = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                   (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : length;
}

}  // namespace gpunode
