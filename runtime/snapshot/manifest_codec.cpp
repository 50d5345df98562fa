#include "runtime/snapshot/manifest_codec.hpp"

#include <bit>
#include <cstring>
#include <set>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "runtime/snapshot/safetensors.hpp"
#include "schemas/checkpoint_generated.h"

namespace gpunode::snapshot {
namespace {

namespace wire = gpunode::wire::checkpoint;
constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kNameLimitBytes = 4096;

wire::Hash128 to_wire(const Digest& digest) {
  return {digest.high, digest.low};
}
Digest from_wire(const wire::Hash128& hash) {
  return {hash.high(), hash.low()};
}

wire::Hash256 to_wire(const storage::Sha256& hash) {
  return std::bit_cast<wire::Hash256>(hash.value);
}
storage::Sha256 from_wire(const wire::Hash256& hash) {
  return {std::bit_cast<std::array<std::byte, 32>>(hash)};
}

Error refused(const std::string& why) {
  return Error{
      ErrorCode::corrupted,
      "checkpoint manifest: " + why + ": use another checkpoint, or restore the file from a copy"};
}

// A name that stays inside its folder whatever wrote the manifest.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  if (!name.ends_with(kEnding) || name.size() == kEnding.size() || name.size() > 128) return false;
  name.remove_suffix(kEnding.size());
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_') return false;
  return true;
}

template <class Table>
bool all_present(const flatbuffers::Vector<flatbuffers::Offset<Table>>* items) {
  if (!items) return true;
  for (const Table* item : *items)
    if (!item) return false;
  return true;
}

// The verifier checks a vector's bounds but not that its elements lie aligned, so a damaged one is
// copied and never looked at in its place.
template <class T, class Vector>
std::vector<T> copy_of(const Vector* from) {
  std::vector<T> items(from ? from->size() : 0);
  if (!items.empty()) std::memcpy(items.data(), from->Data(), items.size() * sizeof(T));
  return items;
}

Result<CheckpointMeta> decode_meta(const wire::Manifest& from, WireBudget& budget) {
  if (!from.job() || !from.sample_sum() || !from.state_digest())
    return refused("a field is missing");
  CheckpointMeta meta;
  meta.key = {from_wire(*from.job()), {from.history_turn(), from.history_mark()}, from.step()};
  meta.job_name = flatbuffers::GetString(from.job_name());
  meta.model.kind = flatbuffers::GetString(from.model_kind());
  if (from.model_settings())
    for (const wire::Setting* setting : *from.model_settings()) {
      if (!budget.take(setting->key()->size() + setting->value()->size()))
        return refused("its model settings lie in one another");
      if (!meta.model.settings.emplace(setting->key()->str(), setting->value()->str()).second)
        return refused("a model setting stands twice");
    }
  meta.sample_sum = from_wire(*from.sample_sum());
  meta.sample_count = from.sample_count();
  meta.state_digest = from_wire(*from.state_digest());
  meta.unix_seconds = from.unix_seconds();
  return meta;
}

Result<ShardRecord> decode_shard(const wire::Shard& from, WireBudget& budget) {
  ShardRecord shard;
  shard.file = from.file()->str();
  if (!is_shard_name(shard.file)) return refused("a shard's name is not one");
  if (from.part() > wire::Part::second_moment) return refused(shard.file + " is of no known part");
  if (!from.sha256()) return refused(shard.file + " has no hash");
  if (from.block_bytes() != ShardRecord::kBlockBytes)
    return refused(shard.file + " has blocks of another size");
  shard.part = static_cast<TensorPart>(from.part());
  shard.size_bytes = from.size_bytes();
  shard.sha256 = from_wire(*from.sha256());
  std::uint64_t blocks = shard.size_bytes / ShardRecord::kBlockBytes +
                         (shard.size_bytes % ShardRecord::kBlockBytes != 0 ? 1 : 0);
  if ((from.blocks() ? from.blocks()->size() : 0) != blocks)
    return refused(shard.file + " has another number of block hashes than blocks");
  if (!budget.take(blocks * sizeof(Digest)))
    return refused(shard.file + " has hashes that are another shard's");
  static_assert(sizeof(Digest) == sizeof(wire::Hash128));
  shard.blocks = copy_of<Digest>(from.blocks());
  return shard;
}

Result<ParameterRecord> decode_parameter(const wire::Parameter& from, const Manifest& manifest) {
  ParameterRecord parameter;
  parameter.name = from.name()->str();
  if (parameter.name.empty() || parameter.name.size() > kNameLimitBytes)
    return refused("a parameter without a proper name");
  if (from.element() > wire::Element::u8)
    return refused(parameter.name + " is of no known element type");
  parameter.type = static_cast<ElementType>(from.element());
  if (from.shape()) {
    if (from.shape()->size() > kSafetensorsRankLimit)
      return refused(parameter.name + " has too many dimensions");
    parameter.shape = copy_of<std::uint64_t>(from.shape());
  }
  if (!tensor_bytes(parameter.type, parameter.shape))
    return refused(parameter.name + " is too large");
  parameter.shards = {from.weight_shard(), from.first_moment_shard(), from.second_moment_shard()};
  for (TensorPart part : kTensorParts) {
    std::int32_t shard = parameter.shard_of(part);
    if (shard == -1 && part != TensorPart::weight) continue;
    if (shard < 0 || static_cast<std::size_t>(shard) >= manifest.shards.size() ||
        manifest.shards[shard].part != part)
      return refused(parameter.name + " lies in a shard that is not there");
  }
  return parameter;
}

Result<Manifest> decode_tables(const wire::Manifest& from, WireBudget budget) {
  if (!all_present(from.shards()) || !all_present(from.parameters()) ||
      !all_present(from.model_settings()))
    return refused("a table is missing");
  Manifest manifest;
  Result<CheckpointMeta> meta = decode_meta(from, budget);
  if (!meta) return meta.error();
  manifest.meta = std::move(*meta);
  std::set<std::string> names;
  if (from.shards()) {
    for (const wire::Shard* item : *from.shards()) {
      Result<ShardRecord> shard = decode_shard(*item, budget);
      if (!shard) return shard.error();
      if (!names.insert(shard->file).second) return refused(shard->file + " stands twice");
      manifest.shards.push_back(std::move(*shard));
    }
  }
  names.clear();
  if (from.parameters()) {
    for (const wire::Parameter* item : *from.parameters()) {
      Result<ParameterRecord> parameter = decode_parameter(*item, manifest);
      if (!parameter) return parameter.error();
      if (!names.insert(parameter->name).second) return refused(parameter->name + " stands twice");
      manifest.parameters.push_back(std::move(*parameter));
    }
  }
  return manifest;
}

}  // namespace

Bytes encode_manifest(const Manifest& manifest) {
  flatbuffers::FlatBufferBuilder builder(64 * 1024);
  const CheckpointMeta& meta = manifest.meta;
  std::vector<flatbuffers::Offset<wire::Setting>> settings;
  for (const auto& [key, value] : meta.model.settings)
    settings.push_back(
        wire::CreateSetting(builder, builder.CreateString(key), builder.CreateString(value)));
  std::vector<flatbuffers::Offset<wire::Shard>> shards;
  for (const ShardRecord& shard : manifest.shards) {
    std::vector<wire::Hash128> blocks;
    for (const Digest& block : shard.blocks) blocks.push_back(to_wire(block));
    const wire::Hash256 hash = to_wire(shard.sha256);
    shards.push_back(wire::CreateShardDirect(builder, shard.file.c_str(),
                                             static_cast<wire::Part>(shard.part), shard.size_bytes,
                                             &hash, ShardRecord::kBlockBytes, &blocks));
  }
  std::vector<flatbuffers::Offset<wire::Parameter>> parameters;
  for (const ParameterRecord& parameter : manifest.parameters) {
    const auto& [weight, first_moment, second_moment] = parameter.shards;
    parameters.push_back(wire::CreateParameter(
        builder, builder.CreateString(parameter.name), static_cast<wire::Element>(parameter.type),
        builder.CreateVector(parameter.shape), weight, first_moment, second_moment));
  }
  const wire::Hash128 job = to_wire(meta.key.job), sum = to_wire(meta.sample_sum),
                      state = to_wire(meta.state_digest);
  const auto job_name = builder.CreateString(meta.job_name);
  const auto kind = builder.CreateString(meta.model.kind);
  const auto all_settings = builder.CreateVector(settings);
  const auto all_parameters = builder.CreateVector(parameters);
  const auto all_shards = builder.CreateVector(shards);
  wire::FinishManifestBuffer(
      builder, wire::CreateManifest(builder, kManifestFormat, &job, job_name, meta.key.history.turn,
                                    meta.key.history.mark, meta.key.step, kind, all_settings, &sum,
                                    meta.sample_count, &state, meta.unix_seconds, all_parameters,
                                    all_shards));
  Bytes bytes = finished_bytes(builder);
  const storage::Sha256 hash = storage::sha256_of(bytes);
  bytes.insert(bytes.end(), hash.value.begin(), hash.value.end());
  return bytes;
}

Result<Manifest> decode_manifest(ByteView bytes) {
  if (bytes.size() < kHashBytes + 8) return refused("it ends early");
  if (bytes.size() > kManifestLimitBytes) return refused("it is too long");
  ByteView table = bytes.first(bytes.size() - kHashBytes);
  if (storage::Sha256::from(bytes.last(kHashBytes)) != storage::sha256_of(table))
    return refused("its checksum does not match");
  Bytes aligned = to_bytes(table);
  const auto* start = reinterpret_cast<const std::uint8_t*>(aligned.data());
  if (!wire::ManifestBufferHasIdentifier(start)) return refused("it is something else");
  flatbuffers::Verifier verifier(start, aligned.size(), /*max_depth=*/8, /*max_tables=*/1u << 22);
  if (!wire::VerifyManifestBuffer(verifier)) return refused("its tables are damaged");
  const wire::Manifest& manifest = *wire::GetManifest(start);
  if (manifest.format() != kManifestFormat)
    return Error{ErrorCode::unsupported,
                 "checkpoint manifest: written by another version (format " +
                     std::to_string(manifest.format()) + ", this one reads " +
                     std::to_string(kManifestFormat) + ")"};
  return decode_tables(manifest, WireBudget(table.size()));
}

}  // namespace gpunode::snapshot
