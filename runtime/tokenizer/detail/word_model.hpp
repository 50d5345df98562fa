// How a word becomes tokens: the "model" of a tokenizer.json. Three kinds: byte-pair encoding, which
// joins neighbours as long as its list of merges has them, the earliest first; WordPiece, which takes
// the longest token that fits, again and again; and words that are tokens.
// Sources: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016;
// Devlin et al., "BERT", 2018.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"
#include "runtime/tokenizer/detail/vocabulary.hpp"

namespace gpunode::tokenizer::detail {

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Adds the tokens of one word. Fails with: unsupported (the word has none, and there is none for
  // such words).
  virtual Result<void> tokenize(std::string_view word, std::vector<Token>& out) const = 0;
  // Of any word of so many bytes; known without a look at it.
  virtual std::size_t least_tokens(std::size_t bytes) const { return bytes > 0 ? 1 : 0; }
};

using Merges = std::vector<std::pair<std::string, std::string>>;  // the first ones first

// `vocabulary` outlives the model. Fails with: unsupported (a kind that is not known here),
// invalid_argument (a merge of what is no token).
Result<std::unique_ptr<WordModel>> make_word_model(const Json& json, const Vocabulary& vocabulary,
                                                   const Merges& merges);

}  // namespace gpunode::tokenizer::detail
