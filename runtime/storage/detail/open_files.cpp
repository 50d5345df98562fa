#include "runtime/storage/detail/open_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gpunode::storage::detail {
namespace {

// Linux moves at most 2 GiB a call; smaller calls also let a slow disk be interrupted.
constexpr std::size_t kCallBytes = 64u << 20;

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

}  // namespace

int open_retrying(int folder, const char* name, int flags, mode_t mode) {
  int number;
  do number = ::openat(folder, name, flags | O_CLOEXEC, mode);
  while (number < 0 && errno == EINTR);
  return number;
}

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

Result<std::unique_ptr<ReadableFile>> readable(Descriptor file, const Path& path) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
  auto size = static_cast<std::uint64_t>(status.st_size);
  return std::unique_ptr<ReadableFile>(new PosixReadable(std::move(file), path, size));
}

Result<std::vector<Entry>> entries_of(DIR* folder, const Path& path) {
  if (!folder) return error_of_errno(errno, "cannot list", path);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(folder, &::closedir);
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(stream.get());
    if (!item) {
      if (errno != 0) return error_of_errno(errno, "cannot list", path);
      break;
    }
    std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    struct stat status;
    if (::fstatat(::dirfd(stream.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed while we were looking
      return error_of_errno(errno, "cannot inspect", path / name);
    }
    entries.push_back(entry_of(std::move(name), status));
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

}  // namespace gpunode::storage::detail
