// What this process gives up for good: rights that a node never needs, and that somebody who takes it
// over would like. By Landlock it writes nothing outside the named folders and starts no programs but
// the named ones; by a seccomp filter it traces, mounts, loads into the kernel and enters namespaces
// no more. It still reads whatever its user may read, as data may lie anywhere, and still speaks
// with any address. Neither needs a privilege. A kernel that lacks one gives the other alone.
//
// Threads that are there already keep their right to write: call it before the first one is started.
// Children inherit all of it. What is refused fails with EACCES or EPERM, so that a library goes on
// without it. Cost: some tens of nanoseconds for an opened file; none for other calls.
#pragma once

#include <string>
#include <vector>

#include "runtime/storage/file_system.hpp"

namespace gpunode::security {

struct SandboxRules {
  // Files, and folders with all below them, that may be written. What does not exist is left out.
  std::vector<storage::Path> writable;
  // Programs that may be started, beside this one.
  std::vector<storage::Path> executable;
};

struct SandboxState {
  bool files = false;  // writes and programs are confined
  bool calls = false;  // system calls are
  std::string lacks;   // why not both; empty otherwise
};

// What the kernel would give; changes nothing.
SandboxState sandbox_of_kernel();

// Confines this process. Also when it already is: then to what both allow.
SandboxState enter_sandbox(const SandboxRules& rules);

// "writes and system calls are confined"
std::string to_text(const SandboxState& state);

}  // namespace gpunode::security
