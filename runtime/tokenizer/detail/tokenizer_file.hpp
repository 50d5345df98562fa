// A tokenizer.json, its two long lists apart from the rest, which is small.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"
#include "runtime/tokenizer/detail/word_model.hpp"

namespace gpunode::tokenizer::detail {

struct TokenizerFile {
  std::vector<std::pair<std::string, Token>> vocabulary;
  Merges merges;
  Json rest;  // without these two
};

// Fails with: corrupted (no JSON, or one of another form), unsupported (a model of kind Unigram).
Result<TokenizerFile> read_tokenizer_file(std::string_view json);

}  // namespace gpunode::tokenizer::detail
