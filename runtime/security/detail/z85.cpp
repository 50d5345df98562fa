#include "runtime/security/detail/z85.hpp"

namespace gpunode::security::detail {

namespace {
constexpr std::string_view kAlphabet =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
}

void z85_encode(ByteView bytes, char* out) {
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < 4; ++index) {
      value = value << 8 | static_cast<std::uint32_t>(bytes[at + index]);
    }
    for (std::size_t index = 5; index-- > 0; value /= 85) out[index] = kAlphabet[value % 85];
    out += 5;
  }
}

bool z85_decode(std::string_view text, MutableByteView out) {
  if (out.size() % 4 != 0 || text.size() != out.size() / 4 * 5) return false;
  for (std::size_t group = 0; group < out.size() / 4; ++group) {
    std::uint64_t value = 0;
    for (char letter : text.substr(group * 5, 5)) {
      std::size_t digit = kAlphabet.find(letter);
      if (digit == std::string_view::npos) return false;
      value = value * 85 + digit;
    }
    if (value > 0xffffffffu) return false;
    for (std::size_t index = 0; index < 4; ++index) {
      out[group * 4 + index] = static_cast<std::byte>((value >> (24 - 8 * index)) & 0xff);
    }
  }
  return true;
}

}  // namespace gpunode::security::detail
