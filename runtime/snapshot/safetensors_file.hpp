// A safetensors file on disk: opened and read tensor by tensor as fp32, or written durably from
// whoever feeds the bytes. What the format is stands in safetensors.hpp. One thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "runtime/snapshot/safetensors.hpp"
#include "runtime/storage/checksum.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::snapshot {

class SafetensorsFile {
 public:
  // Fails with: not_found, permission_denied, corrupted (and the reason).
  static Result<SafetensorsFile> open(const storage::FileSystem& files, const storage::Path& path);

  const SafetensorsHeader& header() const { return header_; }
  const storage::Path& path() const { return path_; }

  // Fills `target`, as many values as the tensor has; f16 and bf16 become the fp32 that they are,
  // f64 the nearest. Fails with: unsupported (whole numbers), corrupted, io_error.
  Result<void> read(const TensorEntry& tensor, std::span<float> target) const;
  // Fills `target` with the tensor's bytes, as many as there are. Fails with: corrupted, io_error.
  Result<void> read_bytes(const TensorEntry& tensor, MutableByteView target) const;

 private:
  SafetensorsFile(storage::Path path, std::unique_ptr<storage::ReadableFile> file,
                  SafetensorsHeader header)
      : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}

  storage::Path path_;
  std::unique_ptr<storage::ReadableFile> file_;
  SafetensorsHeader header_;
};

// "[50257, 768]"
std::string shape_text(const std::vector<std::uint64_t>& shape);

// Gets a tensor's bytes, in any number of pieces.
using TensorSink = std::function<Result<void>(ByteView)>;
using TensorFeed = std::function<Result<void>(const TensorEntry&, const TensorSink&)>;

struct Written {
  storage::Sha256 sha256;  // of the file
  std::uint64_t size_bytes = 0;

  bool operator==(const Written&) const = default;
};

// Writes header and tensors, replacing what is there, durably and all or nothing; `feed` hands over
// each tensor's bytes in the order of the header. Fails with: what `feed` fails with, disk_full,
// permission_denied.
Result<Written> write_safetensors(storage::FileSystem& files, const SafetensorsHeader& header,
                                  const storage::Path& path, const TensorFeed& feed);

}  // namespace gpunode::snapshot
