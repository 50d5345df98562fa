#include "runtime/tokenizer/detail/byte_letters.hpp"

#include <array>

#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

struct Letters {
  std::array<std::string, 256> of_byte;
  std::array<int, 0x180> of_letter;  // the byte; -1: none

  Letters() {
    of_letter.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                        (byte >= 0xae && byte <= 0xff);
      const char32_t letter = seen ? static_cast<char32_t>(byte) : next++;
      append(of_byte[static_cast<std::size_t>(byte)], letter);
      of_letter[letter] = byte;
    }
  }
};

const Letters& letters() {
  static const Letters made;
  return made;
}

}  // namespace

std::string byte_letters(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += letters().of_byte[static_cast<unsigned char>(byte)];
  return text;
}

std::optional<std::string> bytes_of_letters(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const char32_t letter = take_character(text);
    const int byte = letter < letters().of_letter.size() ? letters().of_letter[letter] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace gpunode::tokenizer::detail
