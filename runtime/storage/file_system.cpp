#include "runtime/storage/file_system.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "runtime/base/bytes.hpp"

namespace gpunode::storage {
namespace {

constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr std::size_t kRandomBytes = 8;
constexpr std::size_t kLongestName = 200;  // of the 255 bytes that the system allows a name
constexpr int kMostNames = 8;              // that happen to be taken

// "weights.0123456789abcdef.tmp"
Path temporary_beside(const Path& path) {
  Bytes random(kRandomBytes);
  (void)!::getrandom(random.data(), random.size(), 0);  // write_new finds out what is taken
  std::string name = path.filename().string().substr(0, kLongestName) + "." + to_hex(random);
  return path.parent_path() / name.append(kTemporaryEnding);
}

}  // namespace

bool is_temporary(std::string_view name) {
  constexpr std::size_t kDigits = 2 * kRandomBytes;
  if (!name.ends_with(kTemporaryEnding)) return false;
  name.remove_suffix(kTemporaryEnding.size());
  return name.size() > kDigits && name[name.size() - kDigits - 1] == '.' &&
         name.find_first_not_of("0123456789abcdef", name.size() - kDigits) == name.npos;
}

Path folder_of(const Path& path) {
  Path folder = path.parent_path();
  return folder.empty() ? Path(".") : folder;
}

Result<void> FileSystem::write_atomic(const Path& path, const std::vector<ByteView>& parts) {
  return write_atomic_with(path, [&](WritableFile& file) -> Result<void> {
    for (ByteView part : parts)
      if (Result<void> appended = file.append(part); !appended) return appended;
    return {};
  });
}

Result<void> FileSystem::write_atomic_with(const Path& path,
                                           const std::function<Result<void>(WritableFile&)>& fill) {
  // Only what this call has made is ever removed: another's file may have any name.
  Path temporary = temporary_beside(path);
  Result<std::unique_ptr<WritableFile>> file = write_new(temporary);
  for (int name = 1; name < kMostNames && !file; ++name) {
    if (file.error().code != ErrorCode::already_exists) break;
    temporary = temporary_beside(path);
    file = write_new(temporary);
  }
  if (!file) return file.error();
  auto attempt = [&]() -> Result<void> {
    if (Result<void> filled = fill(**file); !filled) return filled;
    if (Result<void> synced = (*file)->sync(); !synced) return synced;
    return rename(temporary, path);
  };
  if (Result<void> written = attempt(); !written) {
    (void)remove(temporary);
    return written;
  }
  return sync_folder(folder_of(path));
}

Result<Bytes> FileSystem::read(const Path& path, std::uint64_t limit_bytes) const {
  Result<std::unique_ptr<ReadableFile>> file = open(path);
  if (!file) return file.error();
  std::uint64_t size = (*file)->size_bytes();
  if (size > limit_bytes)
    return Error{ErrorCode::resource_exhausted, path.string() + " has " + std::to_string(size) +
                                                    " bytes; at most " +
                                                    std::to_string(limit_bytes) + " are expected"};
  Bytes bytes(size);
  if (Result<void> done = (*file)->read_at(0, bytes); !done) return done.error();
  return bytes;
}

bool FileSystem::exists(const Path& path) const {
  return inspect(path).has_value();
}

Error error_of_errno(int number, std::string_view action, const Path& path) {
  struct Known {
    int number;
    ErrorCode code;
    const char* remedy;
  };
  static constexpr Known kKnown[] = {
      {ENOSPC, ErrorCode::disk_full, "free some space or raise the quota"},
      {EDQUOT, ErrorCode::disk_full, "free some space or raise the quota"},
      {EFBIG, ErrorCode::disk_full, "raise the limit on file sizes (ulimit -f)"},
      {EACCES, ErrorCode::permission_denied, "check who owns it and its mode"},
      {EPERM, ErrorCode::permission_denied, "check who owns it and its mode"},
      {EROFS, ErrorCode::permission_denied, "the file system is mounted read-only"},
      {ENOENT, ErrorCode::not_found, "check the path"},
      {ENOTDIR, ErrorCode::not_found, "check the path"},
      {EEXIST, ErrorCode::already_exists, "remove it or choose another name"},
      {ENOTEMPTY, ErrorCode::already_exists, "remove it or choose another name"},
      {ENAMETOOLONG, ErrorCode::invalid_argument, "check the path"},
      {ELOOP, ErrorCode::invalid_argument, "check the path"},
      {EISDIR, ErrorCode::invalid_argument, "check the path"},
      {EINVAL, ErrorCode::invalid_argument, "check the path"},
      {ENOMEM, ErrorCode::out_of_memory, "free some memory"},
      {EMFILE, ErrorCode::resource_exhausted, "raise the limit on open files (ulimit -n)"},
      {ENFILE, ErrorCode::resource_exhausted, "raise the limit on open files (ulimit -n)"},
  };
  const auto* known = std::ranges::find(kKnown, number, &Known::number);
  const bool is_known = known != std::end(kKnown);
  const ErrorCode code = is_known ? known->code : ErrorCode::io_error;
  const std::string remedy =
      is_known ? known->remedy : "look at the system's log for a failing disk";
  return Error{code, std::string(action) + " " + path.string() + ": " + std::strerror(number) +
                         ": " + remedy};
}

}  // namespace gpunode::storage
