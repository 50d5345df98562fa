// One shard file as it is written and read: hashes are made while bytes are hot, and every block is
// checked before a byte of it is handed on. Private to the snapshot module.
// Owner: one write or one read; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/digest.hpp"
#include "runtime/snapshot/manifest.hpp"
#include "runtime/storage/checksum.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::snapshot::detail {

// Appends to a new file, hashing it whole and by blocks.
class ShardWriter {
 public:
  static Result<ShardWriter> create(storage::FileSystem& files, const storage::Path& path);

  Result<void> append(ByteView bytes);
  // Makes the file durable and says what was written; `file` and `part` are the caller's to fill.
  Result<ShardRecord> finish();

 private:
  explicit ShardWriter(std::unique_ptr<storage::WritableFile> file) : file_(std::move(file)) {}
  void close_block();

  std::unique_ptr<storage::WritableFile> file_;
  storage::Sha256Stream whole_;
  DigestStream block_;
  std::uint64_t block_filled_ = 0;
  ShardRecord record_;
};

// Reads a shard block by block; `record` must outlive the reader.
class ShardReader {
 public:
  // Fails with corrupted when the file is missing or has another length than recorded.
  static Result<ShardReader> open(const storage::FileSystem& files, const storage::Path& folder,
                                  const ShardRecord& record);

  // A block, checked. Fails with corrupted or io_error, naming shard and byte range. The view is
  // valid until the next call.
  Result<ByteView> block(std::uint64_t index);
  // Hands bytes [offset, offset + length) to `sink` in pieces, in order.
  Result<void> stream(std::uint64_t offset, std::uint64_t length,
                      const std::function<Result<void>(ByteView)>& sink);

 private:
  ShardReader(std::unique_ptr<storage::ReadableFile> file, const ShardRecord& record)
      : file_(std::move(file)), record_(&record) {}

  std::unique_ptr<storage::ReadableFile> file_;
  const ShardRecord* record_;
  Bytes buffer_;
  std::optional<std::uint64_t> loaded_;
};

}  // namespace gpunode::snapshot::detail
