// Where a join token comes from: a file, standard input or the environment, never an argument.
#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::cli {

inline constexpr const char* kTokenVariable = "GPUNODE_TOKEN";

// The token of the file ("-": standard input), else of the environment; empty if there is neither.
// The environment variable is wiped in either case. Warns when others can read the file. Fails with
// not_found, permission_denied, invalid_argument (empty, or far too long for a token).
Result<std::string> take_token(const std::string& file);

}  // namespace gpunode::cli
