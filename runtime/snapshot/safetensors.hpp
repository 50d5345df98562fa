// The safetensors format, own reader and writer: 8 bytes header length (little-endian), a JSON
// header {name: {dtype, shape, data_offsets}}, then the data. No code runs when a file is read.
// The writer's bytes are those of the reference implementation: tensors by falling element size,
// then name; metadata first; the header padded with spaces to 8 bytes. So a file is a function of
// its tensors and metadata alone.
// The reader is strict, as its input may be hostile: bounded header, no duplicate names, known
// types, no overflow, and the tensors cover the data without gap or overlap.
// Source: github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/snapshot/manifest.hpp"

namespace gpunode::snapshot {

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, counted from data_offset

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  // in the order of their data
  std::uint64_t data_offset = 0;     // of the first byte of data in the file

  const TensorEntry* find(std::string_view name) const;
  std::uint64_t file_bytes() const;
};

inline constexpr std::uint64_t kSafetensorsHeaderLimitBytes = 32u << 20;
inline constexpr std::uint64_t kSafetensorsTensorLimit = 1u << 20;
inline constexpr std::size_t kSafetensorsRankLimit = 16;

// Elements times element size; nothing when it overflows 63 bits.
std::optional<std::uint64_t> tensor_bytes(ElementType type,
                                          const std::vector<std::uint64_t>& shape);

// Puts the tensors into file order and gives them their places. Names must be unique.
SafetensorsHeader plan_safetensors(std::vector<TensorEntry> tensors,
                                   std::map<std::string, std::string> metadata);
// The file's bytes before the data: length, JSON, padding.
Bytes encode_safetensors_header(const SafetensorsHeader& header);
// Reads the beginning of a file of `file_bytes` bytes; `head` must hold at least the whole header
// (safetensors_header_bytes). Fails with corrupted and the reason.
Result<SafetensorsHeader> decode_safetensors_header(ByteView head, std::uint64_t file_bytes);
// How many bytes of the file the header takes, from its first 8 bytes. Fails with corrupted.
Result<std::uint64_t> safetensors_header_bytes(ByteView first_eight, std::uint64_t file_bytes);

}  // namespace gpunode::snapshot
