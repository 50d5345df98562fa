// The tokens of a model by their texts and numbers. Immutable once it is made.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/token.hpp"

namespace gpunode::tokenizer::detail {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // Of two of one text the first stays.
  void add(std::string text, Token token);
  Token find(std::string_view text) const;                // kNone where there is none
  std::string_view text(Token token) const;               // empty where there is none
  std::size_t size() const { return by_number_.size(); }  // one more than the largest number

 private:
  std::deque<std::string> texts_;  // stay where they are
  std::unordered_map<std::string_view, Token> by_text_;
  std::vector<std::string_view> by_number_;
};

}  // namespace gpunode::tokenizer::detail
