// What is put around the tokens of a text, as the mark of its beginning: the "post_processor" of a
// tokenizer.json, for one text.
#pragma once

#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"
#include "runtime/tokenizer/token.hpp"

namespace gpunode::tokenizer::detail {

struct Surroundings {
  std::vector<Token> before, after;
};

// Fails with: unsupported (a kind that is not known here), invalid_argument.
Result<Surroundings> make_surroundings(const Json& json);

}  // namespace gpunode::tokenizer::detail
