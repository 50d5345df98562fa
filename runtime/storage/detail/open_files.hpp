// What every file system over Linux calls does with a file or folder once it is open.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/descriptor.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::storage::detail {

// Opens, again when a signal comes between; negative: errno says why not.
int open_retrying(int folder, const char* name, int flags, mode_t mode = 0);

Entry entry_of(std::string name, const struct stat& status);

// A regular file for reading; errors name `path`. Fails with invalid_argument (no regular file).
Result<std::unique_ptr<ReadableFile>> readable(Descriptor file, const Path& path);

// Everything in the folder, sorted by name byte by byte; closes it. Null: errno says why not.
Result<std::vector<Entry>> entries_of(DIR* folder, const Path& path);

}  // namespace gpunode::storage::detail
