// A node's state directory: private (0700), locked by one process, of a known format. Everything a
// node must remember lives below it; restarting with it is the same node.
// Layout: format (text), lock, node.sock, and the folders and records of the modules above.
// Owner: actors/node; opened once, first thing, and held until the process ends.
#pragma once

#include <memory>
#include <string>

#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

class StateDirectory {
 public:
  // Of struct sockaddr_un: 108 bytes with the final zero.
  static constexpr std::size_t kSocketPathLimitBytes = 107;
  static constexpr int kFormat = 1;

  // Opens or creates the directory. Fails with, each with its remedy:
  //   invalid_argument   too long for the socket inside it, or a folder that is not ours
  //   wrong_state        another process holds it (the detail names its pid)
  //   unsupported        made by another version
  //   permission_denied, disk_full, io_error   cannot be created or written
  static Result<StateDirectory> open(FileSystem& files, const Path& path);

  // Makes the folder where there is none, and nothing in it; gives its absolute path. Fails as open()
  // does where it is too long or cannot be made.
  static Result<Path> make(FileSystem& files, const Path& path);

  // Whether a process holds it, also one that is stopped or about to end.
  static bool in_use(FileSystem& files, const Path& path);

  const Path& path() const { return path_; }
  Path socket_path() const { return path_ / "node.sock"; }
  Path within(std::string_view name) const { return path_ / name; }
  // A folder inside, created if missing.
  Result<Path> folder(std::string_view name) const;
  FileSystem& files() const { return *files_; }
  // Another process, or another node of this one, may have it from now on.
  void unlock() { lock_.reset(); }

 private:
  StateDirectory(FileSystem& files, Path path, std::unique_ptr<FileLock> lock)
      : files_(&files), path_(std::move(path)), lock_(std::move(lock)) {}

  FileSystem* files_;
  Path path_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace gpunode::storage
