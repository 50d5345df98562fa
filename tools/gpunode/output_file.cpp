#include "tools/gpunode/output_file.hpp"

#include <algorithm>
#include <filesystem>

#include "runtime/storage/posix_file_system.hpp"

namespace gpunode::cli {
namespace fs = std::filesystem;
namespace {

Result<void> outside_state(const Invocation& invocation, const fs::path& path) {
  std::error_code ignored;
  const fs::path place = fs::weakly_canonical(path, ignored);
  const fs::path state = fs::weakly_canonical(invocation.state(), ignored);
  if (std::mismatch(state.begin(), state.end(), place.begin(), place.end()).first != state.end())
    return {};
  return {ErrorCode::invalid_argument, path.string() +
                                           " lies in the node's state directory, which is "
                                           "its own: name a place elsewhere"};
}

}  // namespace

Result<storage::Path> output_file(const Invocation& invocation, const std::string& out) {
  std::error_code ignored;
  const storage::Path path = fs::absolute(out).lexically_normal();
  const auto there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    return Error{ErrorCode::invalid_argument,
                 path.string() + " is not a file: name one that may be written anew"};
  if (!fs::is_directory(path.parent_path(), ignored))
    return Error{ErrorCode::not_found,
                 "there is no folder " + path.parent_path().string() + ": make it first"};
  if (auto good = outside_state(invocation, path); !good) return good.error();
  return path;
}

Result<storage::Path> output_folder(const Invocation& invocation, const std::string& out) {
  std::error_code ignored;
  const storage::Path path = fs::absolute(out).lexically_normal();
  const auto there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_directory(there))
    return Error{ErrorCode::invalid_argument, path.string() + " is not a folder: name another"};
  if (auto good = outside_state(invocation, path); !good) return good.error();
  return path;
}

Result<storage::Path> secret_file(const Invocation& invocation, const std::string& out) {
  auto path = output_file(invocation, out);
  if (path && std::filesystem::exists(*path))
    return Error{ErrorCode::already_exists, path->string() +
                                                " is there already, perhaps with another secret: "
                                                "remove it, or name another file"};
  return path;
}

Result<void> write_secret(const storage::Path& path, const std::string& secret) {
  storage::PosixFileSystem files;
  const std::string text = secret + "\n";
  return files.write_atomic(path, {as_bytes(text)});
}

}  // namespace gpunode::cli
