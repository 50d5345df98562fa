#include "runtime/snapshot/safetensors_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/check.hpp"

namespace gpunode::snapshot {
namespace {

constexpr std::uint64_t kPieceBytes = 1u << 20;

float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31, fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -tiny : tiny;
}

template <class Stored, class Convert>
void convert(ByteView bytes, float* target, Convert as_float) {
  for (std::size_t at = 0; at + sizeof(Stored) <= bytes.size(); at += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + at, sizeof stored);
    *target++ = as_float(stored);
  }
}

// Nothing where the type has no values of that kind.
std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return 4;
    case ElementType::f64:
      return 8;
    case ElementType::f16:
    case ElementType::bf16:
      return 2;
    default:
      return 0;
  }
}

void convert_piece(ElementType type, ByteView bytes, float* target) {
  if (type == ElementType::f64)
    convert<double>(bytes, target, [](double value) { return static_cast<float>(value); });
  else if (type == ElementType::f16)
    convert<std::uint16_t>(bytes, target, from_half);
  else if (type == ElementType::bf16)
    convert<std::uint16_t>(bytes, target, [](std::uint16_t high) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(high) << 16);
    });
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const storage::FileSystem& files,
                                              const storage::Path& path) {
  Result<std::unique_ptr<storage::ReadableFile>> file = files.open(path);
  if (!file) return file.error();
  Bytes head(8);
  if ((*file)->size_bytes() < 8)
    return Error{ErrorCode::corrupted, path.string() + ": not a valid safetensors file: empty"};
  if (Result<void> done = (*file)->read_at(0, head); !done) return done.error();
  Result<std::uint64_t> length = safetensors_header_bytes(head, (*file)->size_bytes());
  if (!length) return length.error().within(path.string());
  head.resize(*length);
  if (Result<void> done = (*file)->read_at(0, head); !done) return done.error();
  Result<SafetensorsHeader> header = decode_safetensors_header(head, (*file)->size_bytes());
  if (!header) return header.error().within(path.string());
  return SafetensorsFile(path, std::move(*file), std::move(*header));
}

Result<void> SafetensorsFile::read(const TensorEntry& tensor, std::span<float> target) const {
  const std::size_t element = element_bytes(tensor.type);
  if (element == 0)
    return {ErrorCode::unsupported,
            path_.string() + ": " + tensor.name + " holds whole numbers where weights are wanted"};
  GPUNODE_CHECK(tensor.end - tensor.begin == target.size() * element,
                "another number of elements than " + tensor.name);
  if (tensor.type == ElementType::f32)
    return file_->read_at(header_.data_offset + tensor.begin, std::as_writable_bytes(target));
  Bytes piece;
  for (std::uint64_t at = tensor.begin; at < tensor.end; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, tensor.end - at));
    if (Result<void> done = file_->read_at(header_.data_offset + at, piece); !done) return done;
    convert_piece(tensor.type, piece, target.data() + (at - tensor.begin) / element);
  }
  return {};
}

Result<void> SafetensorsFile::read_bytes(const TensorEntry& tensor, MutableByteView target) const {
  GPUNODE_CHECK(tensor.end - tensor.begin == target.size(),
                "another number of bytes than " + tensor.name);
  return file_->read_at(header_.data_offset + tensor.begin, target);
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (std::uint64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

Result<Written> write_safetensors(storage::FileSystem& files, const SafetensorsHeader& header,
                                  const storage::Path& path, const TensorFeed& feed) {
  storage::Sha256Stream hash;
  const auto fill = [&](storage::WritableFile& file) -> Result<void> {
    const TensorSink sink = [&](ByteView bytes) -> Result<void> {
      for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kPieceBytes))) {
        ByteView piece = bytes.first(std::min(bytes.size(), kPieceBytes));
        hash.add(piece);
        if (Result<void> done = file.append(piece); !done) return done;
      }
      return {};
    };
    if (Result<void> done = sink(encode_safetensors_header(header)); !done) return done;
    for (const TensorEntry& tensor : header.tensors)
      if (Result<void> done = feed(tensor, sink); !done) return done;
    return {};
  };
  if (Result<void> done = files.write_atomic_with(path, fill); !done)
    return done.error().within("export");
  return Written{hash.finish(), header.file_bytes()};
}

}  // namespace gpunode::snapshot
