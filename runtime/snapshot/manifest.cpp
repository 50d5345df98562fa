#include "runtime/snapshot/manifest.hpp"

#include <charconv>
#include <cinttypes>
#include <cstdio>

namespace gpunode::snapshot {

std::string CheckpointKey::text() const {
  char mark[17];
  std::snprintf(mark, sizeof mark, "%016" PRIx64, history.mark);
  return std::to_string(history.turn) + "-" + mark + "-" + std::to_string(step);
}

std::string CheckpointKey::folder() const {
  return job.text() + "/" + text();
}

std::optional<CheckpointKey> CheckpointKey::parse(const JobId& job, std::string_view name) {
  CheckpointKey key{job, {}, 0};
  const char* at = name.data();
  const char* end = name.data() + name.size();
  const auto read = [&](auto& field, int base) {
    auto [next, failure] = std::from_chars(at, end, field, base);
    at = next;
    return failure == std::errc{};
  };
  const auto dash = [&] { return at != end && *at++ == '-'; };
  if (!read(key.history.turn, 10) || !dash() || !read(key.history.mark, 16) || !dash() ||
      !read(key.step, 10))
    return std::nullopt;
  // Only the one way of writing it, so that a key has one folder.
  if (at != end || key.text() != name) return std::nullopt;
  return key;
}

std::uint64_t Manifest::size_bytes() const {
  std::uint64_t sum = 0;
  for (const ShardRecord& shard : shards) sum += shard.size_bytes;
  return sum;
}

}  // namespace gpunode::snapshot
