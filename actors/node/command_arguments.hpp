// The commands of a node and what their arguments may be: a JSON object of known keys whose values
// are of the right kind, so that a slip of an embedder is an error and not another command. Pure.
#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::node {

// Empty arguments are an empty object. Fails with: invalid_argument, naming the key, or the nearest
// command or key that is known.
Result<void> check_arguments(const std::string& command, const std::string& arguments);

}  // namespace gpunode::node
