// Text as bytes: one file, or all regular files below a folder in byte-wise order of their relative
// paths, seen as one run of bytes. Every regular file counts, binary or hidden, because a rule that
// guesses would give two nodes two data sets; links, sockets and devices never do, so nothing
// outside the folder is read, no file twice and no loop is walked.
// Small data (copy_below_bytes in total) is copied into memory: it then cannot change under a
// running job. Larger data stays in its files and is read when it is wanted, never mapped: who cuts a
// mapped file short ends the process. What has changed is told by ThrownError (unavailable).
// Owner: shared by all readers of a job; immutable, any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/storage/checksum.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::dataset {

struct TextSourceOptions {
  std::uint64_t copy_below_bytes = 256u << 20;
  // Files of larger data that are kept open, the first ones; others are opened for each read.
  std::size_t open_files = 256;
};

class TextSource {
 public:
  struct File {
    std::string name;  // relative to the folder, '/' between parts; empty for a single file
    std::uint64_t offset = 0;
    std::uint64_t size_bytes = 0;

    // Copies bytes from `first` on, all of which lie inside. Throws ThrownError.
    void copy(std::uint64_t first, MutableByteView target) const;
    // Hands out all bytes in order, in pieces of 1 MiB but for the last. Throws ThrownError.
    template <class Sink>
    void stream(Sink sink) const {
      constexpr std::uint64_t kPieceBytes = 1 << 20;
      Bytes piece;
      for (std::uint64_t at = 0; at < size_bytes; at += piece.size()) {
        piece.resize(std::min(kPieceBytes, size_bytes - at));
        copy(at, piece);
        sink(ByteView(piece));
      }
    }

    SharedBytes bytes;  // where it was copied
    std::function<Result<std::shared_ptr<const storage::ReadableFile>>()> open;  // else
  };

  // Reads a file or walks a folder. Fails with not_found, permission_denied, io_error (each names the
  // path that failed), invalid_argument (neither file nor folder, or no byte in it).
  static Result<TextSource> open(const std::shared_ptr<const storage::FileSystem>& files,
                                 const storage::Path& path, TextSourceOptions options = {});
  // The twin for tests and embedders: names and contents, sorted here.
  static TextSource from_memory(std::vector<std::pair<std::string, Bytes>> files);

  std::uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<File>& files() const { return files_; }

  // Copies bytes [offset, offset + target.size()) of the whole; the range must lie inside. Throws
  // ThrownError.
  void copy(std::uint64_t offset, MutableByteView target) const;

  // SHA-256 over each file's name length, name, size (u64, little-endian) and contents, in order:
  // equal on two nodes if and only if a job sees the same data on both. Reads everything. Throws
  // ThrownError.
  storage::Sha256 data_digest() const;

 private:
  explicit TextSource(std::vector<File> files);

  std::vector<File> files_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace gpunode::dataset
