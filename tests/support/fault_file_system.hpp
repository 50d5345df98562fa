// A file system that fails when told to, in front of any other: the nth operation of a kind, every
// write past a number of bytes (disk full), or all that would change anything from some moment on
// (the process died there). It counts what it saw, so that a test can strike every moment in turn
// and assert that each planned fault fired. The test-only build of the binary puts it in front of
// the real file system.
// Thread-safe as far as the file system below is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/storage/file_system.hpp"

namespace gpunode::testing {

enum class FileOperation {
  write_new,
  append,
  sync,
  rename,
  sync_folder,
  create_folder,
  remove,
  lock,
  open,
  read_at,
  list
};

class FaultFileSystem final : public storage::FileSystem {
 public:
  using Path = storage::Path;

  explicit FaultFileSystem(storage::FileSystem& below) : below_(&below) {}

  // The nth (from 0) operation of this kind from now on fails with `code`.
  void fail(FileOperation operation, std::uint64_t nth, ErrorCode code = ErrorCode::io_error) {
    std::lock_guard lock(mutex_);
    planned_[operation] = {seen_[operation] + nth, code};
  }
  // Appending fails with disk_full once this many more bytes were taken; 0 at once.
  void disk_full_after(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    budget_ = bytes;
  }
  // All operations that change anything fail after this many more; tests of crashes.
  void die_after(std::uint64_t changes) {
    std::lock_guard lock(mutex_);
    changes_left_ = changes;
  }
  void heal() {
    std::lock_guard lock(mutex_);
    planned_.clear();
    budget_ = kUnlimited;
    changes_left_ = kUnlimited;
  }
  std::uint64_t seen(FileOperation operation) const {
    std::lock_guard lock(mutex_);
    auto found = seen_.find(operation);
    return found == seen_.end() ? 0 : found->second;
  }
  std::uint64_t fired() const {
    std::lock_guard lock(mutex_);
    return fired_;
  }

  Result<std::unique_ptr<storage::WritableFile>> write_new(const Path& path) override {
    if (auto fault = strike(FileOperation::write_new, path, true)) return *fault;
    auto file = below_->write_new(path);
    if (!file) return file.error();
    return std::unique_ptr<storage::WritableFile>(new Writer(*this, std::move(*file), path));
  }
  Result<std::unique_ptr<storage::ReadableFile>> open(const Path& path) const override {
    if (auto fault = strike(FileOperation::open, path, false)) return *fault;
    auto file = below_->open(path);
    if (!file) return file.error();
    return std::unique_ptr<storage::ReadableFile>(new Reader(*this, std::move(*file), path));
  }
  Result<void> rename(const Path& from, const Path& to) override {
    if (auto fault = strike(FileOperation::rename, from, true)) return *fault;
    return below_->rename(from, to);
  }
  Result<void> sync_folder(const Path& folder) override {
    if (auto fault = strike(FileOperation::sync_folder, folder, true)) return *fault;
    return below_->sync_folder(folder);
  }
  Result<void> create_folder(const Path& folder) override {
    if (auto fault = strike(FileOperation::create_folder, folder, true)) return *fault;
    return below_->create_folder(folder);
  }
  Result<void> make_private(const Path& folder) override { return below_->make_private(folder); }
  Result<std::vector<storage::Entry>> list(const Path& folder) const override {
    if (auto fault = strike(FileOperation::list, folder, false)) return *fault;
    return below_->list(folder);
  }
  Result<storage::Entry> inspect(const Path& path) const override { return below_->inspect(path); }
  Result<void> remove(const Path& path) override {
    if (auto fault = strike(FileOperation::remove, path, true)) return *fault;
    return below_->remove(path);
  }
  Result<std::uint64_t> free_bytes(const Path& path) const override {
    return below_->free_bytes(path);
  }
  Result<std::unique_ptr<storage::FileLock>> lock(const Path& path) override {
    if (auto fault = strike(FileOperation::lock, path, true)) return *fault;
    return below_->lock(path);
  }

 private:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  struct Planned {
    std::uint64_t at = 0;
    ErrorCode code = ErrorCode::io_error;
  };

  class Writer final : public storage::WritableFile {
   public:
    Writer(FaultFileSystem& faults, std::unique_ptr<storage::WritableFile> below, Path path)
        : faults_(faults), below_(std::move(below)), path_(std::move(path)) {}
    Result<void> append(ByteView bytes) override {
      if (auto fault = faults_.strike(FileOperation::append, path_, true)) return *fault;
      std::size_t fits = faults_.take(bytes.size());
      if (Result<void> done = below_->append(bytes.first(fits)); !done) return done;
      if (fits < bytes.size())
        return Error{ErrorCode::disk_full, "cannot write " + path_.string() +
                                               ": no space left (planned fault): free some space"};
      return {};
    }
    Result<void> sync() override {
      if (auto fault = faults_.strike(FileOperation::sync, path_, true)) return *fault;
      return below_->sync();
    }

   private:
    FaultFileSystem& faults_;
    std::unique_ptr<storage::WritableFile> below_;
    Path path_;
  };

  class Reader final : public storage::ReadableFile {
   public:
    Reader(const FaultFileSystem& faults, std::unique_ptr<storage::ReadableFile> below, Path path)
        : faults_(faults), below_(std::move(below)), path_(std::move(path)) {}
    std::uint64_t size_bytes() const override { return below_->size_bytes(); }
    Result<void> read_at(std::uint64_t offset, MutableByteView target) const override {
      if (auto fault = faults_.strike(FileOperation::read_at, path_, false)) return *fault;
      return below_->read_at(offset, target);
    }

   private:
    const FaultFileSystem& faults_;
    std::unique_ptr<storage::ReadableFile> below_;
    Path path_;
  };

  std::unique_ptr<Error> strike(FileOperation operation, const Path& path, bool changes) const {
    std::lock_guard lock(mutex_);
    std::uint64_t number = seen_[operation]++;
    ErrorCode code = ErrorCode::io_error;
    bool hit = false;
    if (auto found = planned_.find(operation);
        found != planned_.end() && found->second.at == number) {
      hit = true;
      code = found->second.code;
    }
    if (changes && changes_left_ != kUnlimited) {
      if (changes_left_ == 0)
        hit = true;
      else
        --changes_left_;
    }
    if (!hit) return nullptr;
    ++fired_;
    return std::make_unique<Error>(Error{code, path.string() + ": planned fault"});
  }

  std::size_t take(std::size_t wanted) {
    std::lock_guard lock(mutex_);
    if (budget_ == kUnlimited) return wanted;
    std::size_t fits = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, budget_));
    budget_ -= fits;
    if (fits < wanted) ++fired_;
    return fits;
  }

  storage::FileSystem* below_;
  mutable std::mutex mutex_;
  mutable std::map<FileOperation, std::uint64_t> seen_;
  mutable std::uint64_t fired_ = 0;
  mutable std::uint64_t changes_left_ = kUnlimited;
  std::map<FileOperation, Planned> planned_;
  std::uint64_t budget_ = kUnlimited;
};

}  // namespace gpunode::testing
