// What the process of `up` and `join` gives up before it becomes a node: the rules of its sandbox
// (runtime/security/sandbox.hpp), made of what a node writes and starts.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/security/sandbox.hpp"

namespace gpunode::cli {

// Confines this process to the state directory, which it makes, and to the devices of GPUs. Before
// the first thread. Fails where there can be no state directory, with what to do about it.
Result<security::SandboxState> confine(const std::string& state, bool uses_gpus);

}  // namespace gpunode::cli
