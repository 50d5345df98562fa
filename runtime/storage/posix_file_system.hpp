// The real file system: FileSystem over Linux calls. Named only in actors/node, tools and tests.
#pragma once

#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> write_new(const Path& path) override;
  Result<std::unique_ptr<ReadableFile>> open(const Path& path) const override;
  Result<void> rename(const Path& from, const Path& to) override;
  Result<void> sync_folder(const Path& folder) override;
  Result<void> create_folder(const Path& folder) override;
  Result<void> make_private(const Path& folder) override;
  Result<std::vector<Entry>> list(const Path& folder) const override;
  Result<Entry> inspect(const Path& path) const override;
  Result<void> remove(const Path& path) override;
  Result<std::uint64_t> free_bytes(const Path& path) const override;
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;
};

}  // namespace gpunode::storage
