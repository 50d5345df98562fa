// A file mapped into memory for reading, as SharedBytes so that the map lives as long as a user.
// For data sets too large to copy: the kernel pages in what is read. A file that somebody truncates
// while it is mapped kills the process at the next read of the lost part (SIGBUS), so this is used
// only for files that a person promised to leave alone, and never for the node's own state.
#pragma once

#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

// Maps all of a regular file, to be read here and there (an empty one gives an empty view). Fails
// with not_found, permission_denied, invalid_argument, out_of_memory.
Result<SharedBytes> map_file(const Path& path);

}  // namespace gpunode::storage
