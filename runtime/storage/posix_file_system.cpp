#include "runtime/storage/posix_file_system.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "runtime/base/descriptor.hpp"
#include "runtime/storage/detail/open_files.hpp"

namespace gpunode::storage {
namespace {

// Linux moves at most 2 GiB a call; smaller calls also let a slow disk be interrupted.
constexpr std::size_t kCallBytes = 64u << 20;

int open_retrying(const Path& path, int flags, mode_t mode = 0) {
  return detail::open_retrying(AT_FDCWD, path.c_str(), flags, mode);
}

class PosixWritable final : public WritableFile {
 public:
  PosixWritable(Descriptor file, Path path) : file_(std::move(file)), path_(std::move(path)) {}

  Result<void> append(ByteView bytes) override {
    while (!bytes.empty()) {
      ssize_t done = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kCallBytes));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return error_of_errno(errno, "cannot write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return {};
  }

  Result<void> sync() override {
    if (::fsync(file_.get()) != 0) return error_of_errno(errno, "cannot sync", path_);
    return {};
  }

 private:
  Descriptor file_;
  Path path_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;  // closing it gives the lock back
};

std::string holder_of(int file) {
  char text[32] = {};
  ssize_t length = ::pread(file, text, sizeof text - 1, 0);
  long pid = 0;
  if (length > 0) std::from_chars(text, text + length, pid);
  return pid > 0 ? "process " + std::to_string(pid) : "another process";
}

}  // namespace

Result<std::unique_ptr<WritableFile>> PosixFileSystem::write_new(const Path& path) {
  Descriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (file.get() < 0) return error_of_errno(errno, "cannot create", path);
  return std::unique_ptr<WritableFile>(new PosixWritable(std::move(file), path));
}

Result<std::unique_ptr<ReadableFile>> PosixFileSystem::open(const Path& path) const {
  // Non-blocking, so that a pipe somebody put there cannot hold us.
  Descriptor file(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (file.get() < 0) return error_of_errno(errno, "cannot open", path);
  return detail::readable(std::move(file), path);
}

Result<void> PosixFileSystem::rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return error_of_errno(errno, "cannot rename " + from.string() + " to", to);
  return {};
}

Result<void> PosixFileSystem::sync_folder(const Path& folder) {
  Descriptor file(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (file.get() < 0) return error_of_errno(errno, "cannot open folder", folder);
  if (::fsync(file.get()) != 0) return error_of_errno(errno, "cannot sync folder", folder);
  return {};
}

Result<void> PosixFileSystem::create_folder(const Path& folder) {
  struct stat status;
  if (::stat(folder.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return Error{ErrorCode::already_exists,
                 folder.string() + " exists and is not a folder: remove it or choose another name"};
  }
  Path above = folder_of(folder);
  if (above != folder)
    if (Result<void> done = create_folder(above); !done) return done;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return error_of_errno(errno, "cannot create folder", folder);
  return sync_folder(above);
}

Result<void> PosixFileSystem::make_private(const Path& folder) {
  if (::chmod(folder.c_str(), 0700) != 0)
    return error_of_errno(errno, "cannot change the mode of", folder);
  return {};
}

Result<std::vector<Entry>> PosixFileSystem::list(const Path& folder) const {
  return detail::entries_of(::opendir(folder.c_str()), folder);
}

Result<Entry> PosixFileSystem::inspect(const Path& path) const {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  return detail::entry_of(path.filename().string(), status);
}

Result<void> PosixFileSystem::remove(const Path& path) {
  Result<Entry> entry = inspect(path);
  if (!entry) return entry.error();
  if (entry->kind != EntryKind::folder) {
    if (::unlink(path.c_str()) != 0) return error_of_errno(errno, "cannot remove", path);
    return {};
  }
  Result<std::vector<Entry>> inside = list(path);
  if (!inside) return inside.error();
  for (const Entry& item : *inside)
    if (Result<void> done = remove(path / item.name); !done) return done;
  if (::rmdir(path.c_str()) != 0) return error_of_errno(errno, "cannot remove folder", path);
  return {};
}

Result<std::uint64_t> PosixFileSystem::free_bytes(const Path& path) const {
  struct statvfs status;
  if (::statvfs(path.c_str(), &status) != 0)
    return error_of_errno(errno, "cannot inspect the disk of", path);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

Result<std::unique_ptr<FileLock>> PosixFileSystem::lock(const Path& path) {
  Descriptor file(open_retrying(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (file.get() < 0) return error_of_errno(errno, "cannot open", path);
  int done;
  do done = ::flock(file.get(), LOCK_EX | LOCK_NB);
  while (done != 0 && errno == EINTR);
  if (done != 0 && errno == EWOULDBLOCK)
    return Error{ErrorCode::wrong_state, path.string() + " is held by " + holder_of(file.get())};
  if (done != 0) return error_of_errno(errno, "cannot lock", path);
  std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return error_of_errno(errno, "cannot write", path);
  return std::unique_ptr<FileLock>(new PosixLock(std::move(file)));
}

}  // namespace gpunode::storage
