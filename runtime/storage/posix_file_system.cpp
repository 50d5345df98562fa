#include "runtime/storage/posix_file_system.hpp"

#include <dirent.h>
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

namespace gpunode::storage {
namespace {

// Linux moves at most 2 GiB a call; smaller calls also let a slow disk be interrupted.
constexpr std::size_t kCallBytes = 64u << 20;

int open_retrying(const Path& path, int flags, mode_t mode = 0) {
  int number;
  do number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (number < 0 && errno == EINTR);
  return number;
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

class PosixReadable final : public ReadableFile {
 public:
  PosixReadable(Descriptor file, Path path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  std::uint64_t size_bytes() const override { return size_; }

  Result<void> read_at(std::uint64_t offset, MutableByteView target) const override {
    while (!target.empty()) {
      ssize_t done = ::pread(file_.get(), target.data(), std::min(target.size(), kCallBytes),
                             static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return error_of_errno(errno, "cannot read", path_);
      if (done == 0)
        return Error{ErrorCode::corrupted, path_.string() + " ends at byte " +
                                               std::to_string(offset) + ", " +
                                               std::to_string(target.size()) + " bytes early"};
      offset += static_cast<std::uint64_t>(done);
      target = target.subspan(static_cast<std::size_t>(done));
    }
    return {};
  }

 private:
  Descriptor file_;
  Path path_;
  std::uint64_t size_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;  // closing it gives the lock back
};

Entry entry_of(std::string name, const struct stat& status) {
  Entry entry{std::move(name), EntryKind::other, 0};
  if (S_ISREG(status.st_mode)) {
    entry.kind = EntryKind::file;
    entry.size_bytes = static_cast<std::uint64_t>(status.st_size);
    entry.open_to_others = (status.st_mode & 077) != 0;
  } else if (S_ISDIR(status.st_mode)) {
    entry.kind = EntryKind::folder;
  } else if (S_ISLNK(status.st_mode)) {
    entry.kind = EntryKind::link;
  }
  return entry;
}

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
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
  auto size = static_cast<std::uint64_t>(status.st_size);
  return std::unique_ptr<ReadableFile>(new PosixReadable(std::move(file), path, size));
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
  DIR* opened = ::opendir(folder.c_str());
  if (!opened) return error_of_errno(errno, "cannot list", folder);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(opened, &::closedir);
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(stream.get());
    if (!item) {
      if (errno != 0) return error_of_errno(errno, "cannot list", folder);
      break;
    }
    std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    struct stat status;
    if (::fstatat(::dirfd(stream.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed while we were looking
      return error_of_errno(errno, "cannot inspect", folder / name);
    }
    entries.push_back(entry_of(std::move(name), status));
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

Result<Entry> PosixFileSystem::inspect(const Path& path) const {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  return entry_of(path.filename().string(), status);
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
