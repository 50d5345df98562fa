#include "runtime/storage/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "runtime/base/descriptor.hpp"

namespace gpunode::storage {

Result<SharedBytes> map_file(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return error_of_errno(errno, "cannot open", path);
  struct stat status;
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
  auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return SharedBytes{};
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (start == MAP_FAILED) return error_of_errno(errno, "cannot map", path);
  // Advice is a hint; a kernel that refuses it serves the pages all the same.
  (void)::madvise(start, size, MADV_RANDOM);
  std::shared_ptr<const void> owner(
      start, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return SharedBytes{std::move(owner), ByteView(static_cast<const std::byte*>(start), size)};
}

}  // namespace gpunode::storage
