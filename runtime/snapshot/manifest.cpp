#include "runtime/snapshot/manifest.hpp"

#include <charconv>

namespace gpunode::snapshot {

std::string CheckpointKey::text() const {
  return std::to_string(generation) + "-" + std::to_string(rollback_epoch) + "-" +
         std::to_string(step);
}

std::string CheckpointKey::folder() const {
  return job.text() + "/" + text();
}

std::optional<CheckpointKey> CheckpointKey::parse(const JobId& job, std::string_view name) {
  CheckpointKey key{job, 0, 0, 0};
  std::uint64_t* fields[] = {&key.generation, &key.rollback_epoch, &key.step};
  const char* at = name.data();
  const char* end = name.data() + name.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
    auto [next, failure] = std::from_chars(at, end, *fields[i]);
    if (failure != std::errc{}) return std::nullopt;
    at = next;
  }
  // Only the one way of writing it, so that a key has one folder.
  if (at != end || key.text() != name) return std::nullopt;
  return key;
}

std::string_view to_string(TensorPart part) {
  switch (part) {
    case TensorPart::weight:
      return "weight";
    case TensorPart::first_moment:
      return "first_moment";
    case TensorPart::second_moment:
      return "second_moment";
  }
  return "weight";
}

std::int32_t ParameterRecord::shard_of(TensorPart part) const {
  switch (part) {
    case TensorPart::weight:
      return weight_shard;
    case TensorPart::first_moment:
      return first_moment_shard;
    case TensorPart::second_moment:
      return second_moment_shard;
  }
  return -1;
}

std::uint64_t Manifest::size_bytes() const {
  std::uint64_t sum = 0;
  for (const ShardRecord& shard : shards) sum += shard.size_bytes;
  return sum;
}

}  // namespace gpunode::snapshot
