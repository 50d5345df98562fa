// One checkpoint on disk, opened for reading. Every byte handed out has passed the checksum of its
// 1 MiB block, so a flipped bit is an error that names shard and byte range, never a bad weight.
// Owner: whoever opened it; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/snapshot/manifest.hpp"
#include "runtime/snapshot/safetensors.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::snapshot {

// Told of bytes read so far, of how many.
using ReadProgress = std::function<void(std::uint64_t, std::uint64_t)>;

class Checkpoint {
 public:
  // Reads the manifest and each shard's header. Fails with not_found, corrupted, unsupported.
  static Result<Checkpoint> open(const storage::FileSystem& files, const storage::Path& folder);

  const Manifest& manifest() const { return manifest_; }
  const storage::Path& folder() const { return folder_; }

  // Reads every byte of every shard, and tells of each block. Fails with corrupted, naming shard
  // and byte range.
  Result<void> verify(const ReadProgress& progress = {}) const;
  // Fills the target's tensors. Names and shapes must be those of the checkpoint, moments asked for
  // must be stored. Fails with invalid_argument naming the first parameter that differs, corrupted.
  Result<void> read_into(const StateTarget& target) const;
  // Hands the tensor's bytes to `sink` in verified pieces of at most 1 MiB.
  Result<void> stream_tensor(std::string_view name, TensorPart part,
                             const std::function<Result<void>(ByteView)>& sink) const;

 private:
  Checkpoint(const storage::FileSystem& files, storage::Path folder, Manifest manifest)
      : files_(&files), folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  // Reads one tensor; the span has its number of elements. Fails with not_found, corrupted.
  Result<void> read_tensor(std::string_view name, TensorPart part, std::span<float> target) const;

  const storage::FileSystem* files_;
  storage::Path folder_;
  Manifest manifest_;
  std::vector<SafetensorsHeader> headers_;  // of each shard
};

}  // namespace gpunode::snapshot
