// What a checkpoint says about itself. The directory of one checkpoint is
//   <root>/<job>/<turn>-<mark>-<step>/   (turn and mark of its history; the mark as 16 hex digits)
// with a file `manifest` (schemas/checkpoint.fbs, then its SHA-256) and shards in safetensors.
// Keys sort by age: one of a history with more turns is newer whatever its step.
// Source of the shard format: the safetensors specification (github.com/huggingface/safetensors).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/snapshot/state_view.hpp"
#include "runtime/storage/checksum.hpp"

namespace gpunode::snapshot {

struct CheckpointKey {
  JobId job;
  HistoryId history;
  std::uint64_t step = 0;  // committed steps in the state

  auto operator<=>(const CheckpointKey&) const = default;
  std::string folder() const;  // "<job>/<turn>-<mark>-<step>"
  std::string text() const;    // what people and logs call it
  // The key of the checkpoint folder `name` of a job.
  static std::optional<CheckpointKey> parse(const JobId& job, std::string_view name);
};

// Everything but the tensors; filled by the checkpoint shelf, kept word for word.
struct CheckpointMeta {
  CheckpointKey key;
  std::string job_name;
  ModelDescription model;
  Digest sample_sum;               // running sum over the samples fed so far
  std::uint64_t sample_count = 0;  // and their number
  Digest state_digest;             // state_digest() of what was written
  std::int64_t unix_seconds = 0;   // when, for people

  bool operator==(const CheckpointMeta&) const = default;
};

enum class ElementType : std::uint8_t {
  f32 = 0,
  f64 = 1,
  f16 = 2,
  bf16 = 3,
  i64 = 4,
  i32 = 5,
  u8 = 6
};

// One shard file holds tensors of one part, under the parameters' own names.
struct ShardRecord {
  static constexpr std::uint64_t kBlockBytes = 1u << 20;

  std::string file;  // "weight-000.safetensors"
  TensorPart part = TensorPart::weight;
  std::uint64_t size_bytes = 0;
  storage::Sha256 sha256;
  std::vector<Digest> blocks;  // of each kBlockBytes of the file, the last one shorter

  bool operator==(const ShardRecord&) const = default;
};

struct ParameterRecord {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::uint64_t> shape;
  ByPart<std::int32_t> shards{-1, -1, -1};  // index into the manifest's; -1: not stored

  std::int32_t shard_of(TensorPart part) const { return shards[static_cast<std::size_t>(part)]; }
  bool operator==(const ParameterRecord&) const = default;
};

struct Manifest {
  CheckpointMeta meta;
  std::vector<ParameterRecord> parameters;
  std::vector<ShardRecord> shards;

  std::uint64_t size_bytes() const;  // of all shards
  bool operator==(const Manifest&) const = default;
};

}  // namespace gpunode::snapshot
