// Where a command writes what `--out` asks for: never over something that is no file, nor over what a
// node keeps.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/storage/file_system.hpp"
#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

// The file's absolute path. Fails with invalid_argument: it is a folder or a device, or lies in the
// state directory; not_found: its folder is not there.
Result<storage::Path> output_file(const Invocation& invocation, const std::string& out);
// The absolute path of a folder for files, which need not be there yet. Fails with invalid_argument: it
// is no folder, or lies in the state directory.
Result<storage::Path> output_folder(const Invocation& invocation, const std::string& out);

// Where a secret goes, which is written over nothing. Fails as output_file does; already_exists.
Result<storage::Path> secret_file(const Invocation& invocation, const std::string& out);
// A line of its own, readable by its owner alone. Fails as writing does.
Result<void> write_secret(const storage::Path& path, const std::string& secret);

}  // namespace gpunode::cli
