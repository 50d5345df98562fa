#include "runtime/tokenizer/text_stream.hpp"

#include <algorithm>

namespace gpunode::tokenizer {

Result<std::string> TextStream::add(Token token) {
  tokens_.push_back(token);
  auto text = tokenizer_->decode(tokens_);
  if (!text) return text;
  if (text->size() <= given_text_.size() || text->ends_with("\ufffd")) return std::string();
  std::string more = text->substr(given_text_.size());
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
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
