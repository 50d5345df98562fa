// One small record in one file that survives power loss: votes, boot, admissions. The file is
// magic (4), version (4), payload length (8), XXH3-128 of all else (16), payload; little-endian.
// A torn, truncated or altered file is told apart from one that was never written, because for a
// vote "I do not know" and "I never voted" are different answers.
// Owner: whoever owns the path; one thread at a time. Cost: two fsyncs a store.
#pragma once

#include <array>
#include <optional>

#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

struct RecordFormat {
  std::array<char, 4> magic{};  // what the record is, e.g. {'V','O','T','E'}
  std::uint32_t version = 1;    // raised whenever the payload's meaning changes
};

class DurableRecord {
 public:
  static constexpr std::uint64_t kLimitBytes = 64u << 20;

  // `files` must outlive the record.
  DurableRecord(FileSystem& files, Path path, RecordFormat format)
      : files_(&files), path_(std::move(path)), format_(format) {}

  // The stored payload; nothing if no record was ever stored. Fails with corrupted (torn or
  // altered; the detail names the file), unsupported (another version), or as reading does.
  Result<std::optional<Bytes>> load() const;
  // Replaces the record; when this returns success the new payload survives power loss. After a
  // failure the old record or the new one is on disk, never a mixture.
  Result<void> store(ByteView payload);

  const Path& path() const { return path_; }

 private:
  FileSystem* files_;
  Path path_;
  RecordFormat format_;
};

}  // namespace gpunode::storage
