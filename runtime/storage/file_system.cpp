#include "runtime/storage/file_system.hpp"

#include <cerrno>
#include <cstring>

namespace gpunode::storage {

Result<void> FileSystem::write_atomic(const Path& path, const std::vector<ByteView>& parts) {
  Path temporary = path;
  temporary += ".tmp";
  auto attempt = [&]() -> Result<void> {
    Result<std::unique_ptr<WritableFile>> file = write_new(temporary);
    if (!file && file.error().code == ErrorCode::already_exists) {
      // Left by a crash; one writer a path, so nobody is using it.
      if (Result<void> removed = remove(temporary); !removed) return removed;
      file = write_new(temporary);
    }
    if (!file) return file.error();
    for (ByteView part : parts)
      if (Result<void> appended = (*file)->append(part); !appended) return appended;
    if (Result<void> synced = (*file)->sync(); !synced) return synced;
    return rename(temporary, path);
  };
  if (Result<void> written = attempt(); !written) {
    (void)remove(temporary);
    return written;
  }
  Path folder = path.parent_path();
  return sync_folder(folder.empty() ? Path(".") : folder);
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
  ErrorCode code = ErrorCode::io_error;
  std::string remedy = "look at the system's log for a failing disk";
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::disk_full;
      remedy = "free some space or raise the quota";
      break;
    case EFBIG:
      code = ErrorCode::disk_full;
      remedy = "raise the limit on file sizes (ulimit -f)";
      break;
    case EACCES:
    case EPERM:
      code = ErrorCode::permission_denied;
      remedy = "check who owns it and its mode";
      break;
    case EROFS:
      code = ErrorCode::permission_denied;
      remedy = "the file system is mounted read-only";
      break;
    case ENOENT:
    case ENOTDIR:
      code = ErrorCode::not_found;
      remedy = "check the path";
      break;
    case EEXIST:
    case ENOTEMPTY:
      code = ErrorCode::already_exists;
      remedy = "remove it or choose another name";
      break;
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case EINVAL:
      code = ErrorCode::invalid_argument;
      remedy = "check the path";
      break;
    case ENOMEM:
      code = ErrorCode::out_of_memory;
      remedy = "free some memory";
      break;
    case EMFILE:
    case ENFILE:
      code = ErrorCode::resource_exhausted;
      remedy = "raise the limit on open files (ulimit -n)";
      break;
    default:
      break;
  }
  return Error{code, std::string(action) + " " + path.string() + ": " + std::strerror(number) +
                         ": " + remedy};
}

}  // namespace gpunode::storage
