#include "runtime/tokenizer/detail/vocabulary.hpp"

#include <utility>

namespace gpunode::tokenizer::detail {

void Vocabulary::add(std::string text, Token token) {
  texts_.push_back(std::move(text));
  const std::string_view kept = texts_.back();
  if (!by_text_.emplace(kept, token).second) return;
  const auto number = static_cast<std::size_t>(token);
  if (by_number_.size() <= number) by_number_.resize(number + 1);
  by_number_[number] = kept;
}

Token Vocabulary::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? kNone : found->second;
}

std::string_view Vocabulary::text(Token token) const {
  const auto number = static_cast<std::size_t>(token);
  return token < 0 || number >= by_number_.size() ? std::string_view() : by_number_[number];
}

}  // namespace gpunode::tokenizer::detail
