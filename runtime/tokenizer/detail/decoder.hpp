// How the texts of tokens become one: the "decoder" of a tokenizer.json. What is no text, as half of
// a character, becomes U+FFFD.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"

namespace gpunode::tokenizer::detail {

using Texts = std::vector<std::string>;
// The texts, of which all together are the answer.
using Decoder = std::function<Result<Texts>(Texts tokens)>;

// Of null one that puts spaces between tokens. Fails with: unsupported (a kind that is not known
// here), invalid_argument.
Result<Decoder> make_decoder(const Json& json);

// What single tokens stand for, where that need not be whole characters.
struct ByteRule {
  bool letters = false;  // their letters stand for bytes (ByteLevel)
  bool names = false;    // a token as <0x0A> stands for a byte (ByteFallback)
  bool compose = true;   // a text is what its tokens stand for, one behind the other
  // Nothing: whole characters, as the decoder says.
  std::optional<std::string> of(const std::string& token) const;
};
ByteRule byte_rule_of(const Json& decoder);

// Each longest beginning of a character that does not go on as one becomes U+FFFD.
// Source: Unicode 15, 3.9.
std::string well_formed(std::string_view bytes);

}  // namespace gpunode::tokenizer::detail
