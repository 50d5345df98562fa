// What is told of a cluster's recovery key for as long as it lies where founding has written it.
#pragma once

#include <string>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

// The file in the state directory; empty: it is not there, as it should be.
std::string recovery_key_of(const Invocation& invocation);
// A line, with its end.
std::string recovery_key_advice(const std::string& path);

}  // namespace gpunode::cli
