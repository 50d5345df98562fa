// The keys of a front as they lie in their file, read anew soon after the file has changed: what is
// revoked opens nothing half a second later. A file that is there and cannot be read lets nobody in.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/inference/api_keys.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::inference {

class KeyRing {
 public:
  static constexpr const char* kFile = "http_keys.json";  // in the state directory

  // Both outlive it. `always`: a key is wanted of everybody also where there is no file.
  KeyRing(const storage::FileSystem& files, storage::Path path, const Clock& clock, bool always);

  // Whether who asks needs a key: always, or where there is, or was, a file with keys.
  bool is_wanted();
  // How many of its keys are good now. Fails as reading does.
  Result<std::size_t> count();

  // Fails with unauthenticated (no such key, or one that is over), unavailable (the file is bad).
  Result<ApiKey> find(std::string_view key);
  // Whether a key that was found is good still.
  bool has(const ApiKey& key);

  // Of the file as it is on disk. Fails with not_found, permission_denied (others may read it),
  // corrupted.
  static Result<ApiKeys> read(const storage::FileSystem& files, const storage::Path& path);

 private:
  void look();
  std::int64_t now() const;

  const storage::FileSystem& files_;
  const storage::Path path_;
  const Clock& clock_;
  std::mutex mutex_;
  bool wanted_;
  std::optional<Time> looked_;
  ApiKeys keys_;
  std::optional<Error> failure_;
};

}  // namespace gpunode::inference
