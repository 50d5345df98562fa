// Tokens that come one after another as the text that they add, a character never in halves. All that
// it gives together is what decoding all tokens at once gives, but where a decoder tidies up over
// their borders (BERT's), and in long runs of bytes that are no text. Costs a decoding of the last few tokens a token. One thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/tokenizer/tokenizer.hpp"

namespace gpunode::tokenizer {

class TextStream {
 public:
  explicit TextStream(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  // What the text goes on from, before any of it: its first word may begin with a space that a decoder
  // takes from what begins with it. Only the last few of these tokens count.
  // Fails with: what decoding fails with.
  Result<void> go_on_from(std::span<const Token> tokens);
  // What this token adds, and those before it whose characters were not whole; often nothing.
  // Fails with: what decoding fails with.
  Result<std::string> add(Token token);
  // What is left when no more come: of a character that is not whole, U+FFFD.
  Result<std::string> end();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Token> tokens_;  // since the last piece but one
  std::size_t given_ = 0;      // of these tokens, whose text was given
  std::string given_text_;     // which it is
};

}  // namespace gpunode::tokenizer
