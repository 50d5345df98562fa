// How a text is cut into words, none of whose tokens reaches into another: the "pre_tokenizer" of a
// tokenizer.json.
#pragma once

#include <functional>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"
#include "runtime/tokenizer/detail/pieces.hpp"

namespace gpunode::tokenizer::detail {

using PreTokenizer = std::function<Result<void>(Pieces& pieces)>;

// Of null one that cuts nothing. Fails with: unsupported (a kind that is not known here),
// invalid_argument.
Result<PreTokenizer> make_pre_tokenizer(const Json& json);

// The first word that a Metaspace puts its mark before, in files old and new: "always", "first" or
// "never".
std::string prepend_scheme(const Json& metaspace);

}  // namespace gpunode::tokenizer::detail
