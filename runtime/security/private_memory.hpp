// Keeps what this process has in memory, its keys above all, from disks and from other processes of
// the same user. For programs that are a node and nothing else: whoever embeds one decides for the
// whole of its own process. Any thread, once.
#pragma once

#include "runtime/base/result.hpp"

namespace gpunode::security {

// From now on there is no core dump of this process, nor of those that it starts, and no other
// process of its user may read its memory or attach a debugger. Lasts until it executes another
// program. Fails with unsupported where the system refuses.
Result<void> keep_memory_private();

}  // namespace gpunode::security
