// Text to the tokens of a model, and back, as a tokenizer.json of Hugging Face's tokenizers says:
// normaliser, words, byte-pair merges or word pieces, added tokens, and what is put around them. A
// file that asks for what is not known here is refused by name, never read in another way. Immutable:
// any thread. Costs about 150 bytes a token of memory, and a microsecond a token of text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/token.hpp"

namespace gpunode::tokenizer {

struct EncodeOptions {
  bool surrounded = true;  // by what the model expects around a text, as the mark of its beginning
  bool special_tokens =
      true;  // in the text are what they stand for; false: letters like any others
  // Tokens; a text that surely has more fails before they are all made.
  std::size_t most = std::size_t(-1);
};

class Tokenizer {
 public:
  // Fails with: corrupted (no JSON), invalid_argument (a part that makes no sense), unsupported (a
  // part that is not known here); each names it.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json);
  // Of a model over bytes: each is a token, and any bytes are a text.
  static std::shared_ptr<const Tokenizer> of_bytes();
  virtual ~Tokenizer() = default;

  // Fails with: invalid_argument (no UTF-8, too long), resource_exhausted (a text made to be slow to cut),
  // unsupported (a word of none of its tokens, where it has none for such words).
  virtual Result<std::vector<Token>> encode(std::string_view text,
                                            EncodeOptions options = {}) const = 0;

  // Numbers that are no tokens are left out, and special tokens where they are not wanted.
  // Fails with: resource_exhausted (as encode).
  virtual Result<std::string> decode(std::span<const Token> tokens,
                                     bool special_tokens = false) const = 0;

  virtual std::size_t vocabulary() const = 0;  // one more than the largest number
  // As it stands in the vocabulary, which need not be what it stands for; empty: none has the number.
  virtual std::string_view text_of(Token token) const = 0;
  virtual std::optional<Token> token_of(std::string_view text) const = 0;
  virtual bool is_special(Token token) const = 0;
  // What a token adds to a text in whose midst it stands, also where that is half a character; of a
  // special one its name. Empty: none has the number.
  virtual std::string bytes_of(Token token) const = 0;
  // Whether a text is the bytes of its tokens one behind the other, but for where it begins.
  virtual bool is_made_of_bytes() const = 0;
};

}  // namespace gpunode::tokenizer
