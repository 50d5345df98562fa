#include "runtime/snapshot/detail/shard_file.hpp"

#include <algorithm>

namespace gpunode::snapshot::detail {

constexpr std::uint64_t kBlock = ShardRecord::kBlockBytes;

namespace {

// "shard weight-000.safetensors, bytes 0 to 1048575"
std::string place_in(const ShardRecord& record, std::uint64_t begin, std::uint64_t end) {
  return "shard " + record.file + ", bytes " + std::to_string(begin) + " to " +
         std::to_string(end - 1);
}

Error damaged(const ShardRecord& record, std::uint64_t begin, std::uint64_t end,
              const std::string& why) {
  return {ErrorCode::corrupted, place_in(record, begin, end) + ": " + why +
                                    ": use another checkpoint, or restore the file from a copy"};
}

}  // namespace

Result<ShardWriter> ShardWriter::create(storage::FileSystem& files, const storage::Path& path) {
  Result<std::unique_ptr<storage::WritableFile>> file = files.write_new(path);
  if (!file) return file.error();
  return ShardWriter(std::move(*file));
}

void ShardWriter::close_block() {
  record_.blocks.push_back(block_.value());
  block_ = {};
  block_filled_ = 0;
}

Result<void> ShardWriter::append(ByteView bytes) {
  while (!bytes.empty()) {
    ByteView piece = bytes.first(std::min<std::uint64_t>(bytes.size(), kBlock - block_filled_));
    if (Result<void> done = file_->append(piece); !done) return done;
    whole_.add(piece);
    block_.add(piece);
    record_.size_bytes += piece.size();
    block_filled_ += piece.size();
    if (block_filled_ == kBlock) close_block();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<ShardRecord> ShardWriter::finish() {
  if (block_filled_ > 0) close_block();
  record_.sha256 = whole_.finish();
  if (Result<void> done = file_->sync(); !done) return done.error();
  return std::move(record_);
}

Result<ShardReader> ShardReader::open(const storage::FileSystem& files, const storage::Path& folder,
                                      const ShardRecord& record) {
  Result<std::unique_ptr<storage::ReadableFile>> file = files.open(folder / record.file);
  if (!file && file.error().code == ErrorCode::not_found)
    return damaged(record, 0, record.size_bytes, "the file is missing");
  if (!file) return file.error();
  std::uint64_t size = (*file)->size_bytes();
  if (size < record.size_bytes)
    return damaged(record, size, record.size_bytes, "the file ends early");
  if (size > record.size_bytes)
    return damaged(record, record.size_bytes, size, "the file is longer than was written");
  return ShardReader(std::move(*file), record);
}

Result<ByteView> ShardReader::block(std::uint64_t index) {
  if (loaded_ == index) return ByteView(buffer_);
  std::uint64_t begin = index * kBlock;
  std::uint64_t end = std::min(begin + kBlock, record_->size_bytes);
  GPUNODE_CHECK(begin < end && index < record_->blocks.size(),
                "block " + std::to_string(index) + " of " + record_->file);
  loaded_.reset();
  buffer_.resize(end - begin);
  if (Result<void> done = file_->read_at(begin, buffer_); !done)
    return done.error().within(place_in(*record_, begin, end));
  if (digest_of(buffer_) != record_->blocks[index])
    return damaged(*record_, begin, end, "checksum does not match");
  loaded_ = index;
  return ByteView(buffer_);
}

Result<void> ShardReader::stream(std::uint64_t offset, std::uint64_t length,
                                 const std::function<Result<void>(ByteView)>& sink) {
  while (length > 0) {
    Result<ByteView> bytes = block(offset / kBlock);
    if (!bytes) return bytes.error();
    ByteView piece = bytes->subspan(offset % kBlock);
    piece = piece.first(std::min<std::uint64_t>(piece.size(), length));
    if (Result<void> done = sink(piece); !done) return done;
    offset += piece.size();
    length -= piece.size();
  }
  return {};
}

}  // namespace gpunode::snapshot::detail
