// From argv to a command and its arguments. The only place that knows CLI11.
#pragma once

#include <string>
#include <vector>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

// `words` without the program's name; the command is `help` where help was asked for. Fails with
// invalid_argument: unknown command or flag (naming the nearest), a missing or surplus word; the
// detail is one sentence.
Result<Invocation> parse_command_line(std::vector<std::string> words);

}  // namespace gpunode::cli
