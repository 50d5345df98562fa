// Byte-pair encoding. Costs n log n for a word of n characters.
#pragma once

#include <optional>
#include <unordered_map>

#include "runtime/tokenizer/detail/word_model.hpp"

namespace gpunode::tokenizer::detail {

class BytePairModel final : public WordModel {
 public:
  static Result<std::unique_ptr<WordModel>> open(const Json& json, const Vocabulary& vocabulary,
                                                 const Merges& merges);
  Result<void> tokenize(std::string_view word, std::vector<Token>& out) const override;
  std::size_t least_tokens(std::size_t bytes) const override;

 private:
  struct Merge {
    std::size_t rank = 0;
    Token joined = kNone;
  };
  struct Symbol;
  static constexpr std::size_t kLongestCharacter = 4;
  explicit BytePairModel(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  Result<void> read_merges(const Merges& merges);
  Result<std::vector<Token>> characters_of(std::string_view word) const;
  // The tokens of the bytes of a character; nothing where one of them has none.
  std::optional<std::vector<Token>> bytes_of(std::string_view character) const;
  const Merge* merge_of(Token left, Token right) const;
  void join(const std::vector<Token>& characters, std::vector<Token>& out) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by both numbers
  std::string unknown_, prefix_, suffix_;    // of what continues a word, and of what ends it
  std::size_t longest_ = kLongestCharacter;  // bytes of a token
  bool leaves_out_ = false;                  // characters that are no tokens
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
};

}  // namespace gpunode::tokenizer::detail
