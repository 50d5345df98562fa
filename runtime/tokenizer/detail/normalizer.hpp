// What is done to a text before it is looked at: the "normalizer" of a tokenizer.json.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/detail/fields.hpp"
#include "runtime/tokenizer/detail/pieces.hpp"

namespace gpunode::tokenizer::detail {

using Normalizer = std::function<Result<std::string>(std::string text)>;

// Of null one that changes nothing. Fails with: unsupported (a kind that is not known here),
// invalid_argument.
Result<Normalizer> make_normalizer(const Json& json);

// What a "pattern" finds: {"String": …} or {"Regex": …}. Fails with: invalid_argument.
Result<Finder> make_finder(const Json& pattern);

}  // namespace gpunode::tokenizer::detail
