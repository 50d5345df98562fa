#include "runtime/storage/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace gpunode::storage {

Result<SharedBytes> map_file(const Path& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return error_of_errno(errno, "cannot open", path);
  struct stat status;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
  }
  auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    ::close(file);
    return SharedBytes{};
  }
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  int failure = errno;
  ::close(file);
  if (start == MAP_FAILED) return error_of_errno(failure, "cannot map", path);
  // Advice is a hint; a kernel that refuses it serves the pages all the same.
  (void)::madvise(start, size, MADV_RANDOM);
  std::shared_ptr<const void> owner(
      start, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return SharedBytes{std::move(owner), ByteView(static_cast<const std::byte*>(start), size)};
}

}  // namespace gpunode::storage
