// Files as the runtime sees them: a small interface whose every write says when it is durable.
// Why an interface: full disks, torn writes and lost caches are tested by its twins
// (tests/support/memory_file_system.hpp and fault_file_system.hpp), which pass the same contract
// tests as the real one (posix_file_system.hpp). What must survive power loss goes through
// write_atomic, or through write_new + sync + rename + sync_folder where it has several files.
// Owner: the node; all functions may be called from any thread, one writer a path.
// Cost: a durable write is two fsyncs (file, folder); folders are made 0700, files 0600.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::storage {

using Path = std::filesystem::path;

// The folder that holds `path`.
Path folder_of(const Path& path);

enum class EntryKind { file, folder, link, other };

struct Entry {
  std::string name;  // last part of the path, raw bytes
  EntryKind kind = EntryKind::other;
  std::uint64_t size_bytes = 0;  // of a file
  bool open_to_others = false;   // group or others have any right to this file
};

// A file being written; the destructor closes it, durable or not.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends all of `bytes`. Fails with disk_full, io_error; the file is then of unknown length.
  virtual Result<void> append(ByteView bytes) = 0;
  // Makes everything appended so far survive power loss. After a failure the file is worthless:
  // the kernel may have dropped the pages, so it is never tried again.
  virtual Result<void> sync() = 0;
};

// A file being read; size_bytes is that of the moment of opening.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size_bytes() const = 0;
  // Fills all of `target` from `offset`. Fails with corrupted when the file ends before, io_error.
  virtual Result<void> read_at(std::uint64_t offset, MutableByteView target) const = 0;
};

// Held exclusively until destroyed (or until its process dies).
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file that must not exist yet. Fails with already_exists, permission_denied,
  // disk_full.
  virtual Result<std::unique_ptr<WritableFile>> write_new(const Path& path) = 0;
  // Opens a regular file. Fails with not_found, permission_denied, invalid_argument (not a file).
  virtual Result<std::unique_ptr<ReadableFile>> open(const Path& path) const = 0;
  // Moves a file or folder in one step; replaces a file that is in the way, never a folder with
  // contents (already_exists). Durable after sync_folder of the folder that holds `to`.
  virtual Result<void> rename(const Path& from, const Path& to) = 0;
  // Makes the names in `folder` survive power loss.
  virtual Result<void> sync_folder(const Path& folder) = 0;
  // Creates the folder and what is missing above it (0700), durably; fine if it exists.
  virtual Result<void> create_folder(const Path& folder) = 0;
  // Takes all rights of group and others from an existing folder of ours.
  virtual Result<void> make_private(const Path& folder) = 0;
  // Everything in the folder, sorted by name byte by byte. Fails with not_found, permission_denied.
  virtual Result<std::vector<Entry>> list(const Path& folder) const = 0;
  // Kind and size of what stands at `path` (links are not followed). Fails with not_found.
  virtual Result<Entry> inspect(const Path& path) const = 0;
  // Removes a file, a link or a folder with all it holds; not_found if nothing is there.
  virtual Result<void> remove(const Path& path) = 0;
  // Bytes that we may still write to the disk that holds `path`.
  virtual Result<std::uint64_t> free_bytes(const Path& path) const = 0;
  // Takes the exclusive lock of the file, creating it, and writes our process id into it.
  // Fails with wrong_state when held; the detail names the process that holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const Path& path) = 0;

  // Replaces the file by the concatenation of `parts`, durably: after a crash at any moment the
  // file holds either all of the old bytes or all of the new. Written beside it under a name that
  // nobody else has (is_temporary), which is gone after a failure and stays after a crash.
  Result<void> write_atomic(const Path& path, const std::vector<ByteView>& parts);
  // The same by what `fill` appends.
  Result<void> write_atomic_with(const Path& path,
                                 const std::function<Result<void>(WritableFile&)>& fill);
  // The whole file. Fails as open does, and with resource_exhausted when longer than `limit_bytes`.
  Result<Bytes> read(const Path& path, std::uint64_t limit_bytes) const;
  bool exists(const Path& path) const;
};

// Whether a name is one of those under which write_atomic writes.
bool is_temporary(std::string_view name);

// The house's words for an errno: code, cause and what to try. `action` reads "cannot write".
Error error_of_errno(int number, std::string_view action, const Path& path);

}  // namespace gpunode::storage
