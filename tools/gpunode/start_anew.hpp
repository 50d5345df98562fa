// The node's process in its own place: the same program, process and flags, on the same state
// directory. A lost GPU is given back by nothing less.
#pragma once

#include <string>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

// Does not return unless the program cannot be started; then the exit code. Waits before, the
// longer the more often it was called in a row. `config`: the settings file, absolute; empty: none.
int start_anew(const Invocation& invocation, const std::string& config);

}  // namespace gpunode::cli
