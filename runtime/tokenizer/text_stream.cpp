#include "runtime/tokenizer/text_stream.hpp"

#include <algorithm>

namespace gpunode::tokenizer {
namespace {

// Tokens of which none makes a character whole: more of them are no text, and are given as such.
constexpr std::size_t kMostHeld = 32;

}  // namespace

Result<void> TextStream::go_on_from(std::span<const Token> tokens) {
  tokens = tokens.last(std::min(tokens.size(), kMostHeld));
  tokens_.assign(tokens.begin(), tokens.end());
  given_ = tokens_.size();
  auto text = tokenizer_->decode(tokens_);
  if (!text) return text.error();
  given_text_ = *std::move(text);
  return {};
}

Result<std::string> TextStream::add(Token token) {
  tokens_.push_back(token);
  auto text = tokenizer_->decode(tokens_);
  if (!text) return text;
  const bool whole = text->size() > given_text_.size() && !text->ends_with("\ufffd");
  if (!whole && tokens_.size() - given_ < kMostHeld) return std::string();
  std::string more = text->substr(std::min(text->size(), given_text_.size()));
  // What was given last stays as what the next token stands behind.
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
  if (!whole) tokens_.assign(1, token);
  given_ = tokens_.size();
  auto given = tokenizer_->decode(tokens_);
  if (!given) return given;
  given_text_ = *std::move(given);
  return more;
}

Result<std::string> TextStream::end() {
  auto text = tokenizer_->decode(tokens_);
  if (!text) return text;
  std::string more = text->substr(std::min(text->size(), given_text_.size()));
  tokens_.clear();
  given_ = 0;
  given_text_.clear();
  return more;
}

}  // namespace gpunode::tokenizer
