// The seccomp half of the sandbox (sandbox.hpp): which system calls a node does without.
#pragma once

#include <string>

namespace gpunode::security::detail {

// Why the kernel would not filter; empty: it would.
std::string call_filter_lacks();

// From now on the calls of call_filter.cpp fail with EPERM, in all threads. Empty: done; else why not.
// Wants no_new_privs.
std::string filter_calls();

}  // namespace gpunode::security::detail
