#include "runtime/snapshot/checkpoint.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/snapshot/detail/shard_file.hpp"
#include "runtime/snapshot/manifest_codec.hpp"
#include "runtime/snapshot/safetensors_file.hpp"

namespace gpunode::snapshot {
namespace {

Error corrupted_shard(const ShardRecord& shard, const std::string& why) {
  return Error{ErrorCode::corrupted, "shard " + shard.file + ": " + why};
}

Result<SafetensorsHeader> read_header(const storage::FileSystem& files, const storage::Path& folder,
                                      const ShardRecord& shard) {
  Result<detail::ShardReader> reader = detail::ShardReader::open(files, folder, shard);
  if (!reader) return reader.error();
  if (shard.size_bytes < 8) return corrupted_shard(shard, "shorter than its header");
  Bytes head;
  auto append = [&](ByteView piece) -> Result<void> {
    head.insert(head.end(), piece.begin(), piece.end());
    return {};
  };
  if (Result<void> done = reader->stream(0, 8, append); !done) return done.error();
  Result<std::uint64_t> length = safetensors_header_bytes(head, shard.size_bytes);
  if (!length) return length.error().within("shard " + shard.file);
  if (Result<void> done = reader->stream(8, *length - 8, append); !done) return done.error();
  Result<SafetensorsHeader> header = decode_safetensors_header(head, shard.size_bytes);
  if (!header) return header.error().within("shard " + shard.file);
  return header;
}

const ParameterRecord* find_parameter(const Manifest& manifest, std::string_view name) {
  const auto found = std::ranges::find(manifest.parameters, name, &ParameterRecord::name);
  return found == manifest.parameters.end() ? nullptr : &*found;
}

// The shards hold exactly the tensors that the manifest promises.
Result<void> match(const Manifest& manifest, const std::vector<SafetensorsHeader>& headers) {
  std::vector<std::map<std::string_view, const TensorEntry*>> held(headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i)
    for (const TensorEntry& tensor : headers[i].tensors) held[i].emplace(tensor.name, &tensor);
  for (const ParameterRecord& parameter : manifest.parameters) {
    for (TensorPart part : kTensorParts) {
      std::int32_t shard = parameter.shard_of(part);
      if (shard < 0) continue;
      auto found = held[shard].find(parameter.name);
      if (found == held[shard].end() || found->second->shape != parameter.shape ||
          found->second->type != parameter.type)
        return corrupted_shard(manifest.shards[shard],
                               "does not hold " + parameter.name + " as the manifest says");
      held[shard].erase(found);
    }
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    if (!held[i].empty())
      return corrupted_shard(manifest.shards[i], "holds " + std::string(held[i].begin()->first) +
                                                     ", which the manifest does not name");
  return {};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const storage::FileSystem& files, const storage::Path& folder) {
  Result<Bytes> bytes = files.read(folder / "manifest", kManifestLimitBytes);
  if (!bytes) return bytes.error().within("checkpoint");
  Result<Manifest> manifest = decode_manifest(*bytes);
  if (!manifest) return manifest.error().within(folder.string());
  Checkpoint checkpoint(files, folder, std::move(*manifest));
  for (const ShardRecord& shard : checkpoint.manifest_.shards) {
    Result<SafetensorsHeader> header = read_header(files, folder, shard);
    if (!header) return header.error().within(folder.string());
    checkpoint.headers_.push_back(std::move(*header));
  }
  if (Result<void> done = match(checkpoint.manifest_, checkpoint.headers_); !done)
    return done.error().within(folder.string());
  return checkpoint;
}

Result<void> Checkpoint::verify(const ReadProgress& progress) const {
  const std::uint64_t all = manifest_.size_bytes();
  std::uint64_t read = 0;
  for (const ShardRecord& shard : manifest_.shards) {
    Result<detail::ShardReader> reader = detail::ShardReader::open(*files_, folder_, shard);
    if (!reader) return reader.error().within(folder_.string());
    storage::Sha256Stream whole;
    for (std::uint64_t block = 0; block < shard.blocks.size(); ++block) {
      Result<ByteView> bytes = reader->block(block);
      if (!bytes) return bytes.error().within(folder_.string());
      whole.add(*bytes);
      read += bytes->size();
      if (progress) progress(read, all);
    }
    if (whole.finish() != shard.sha256)
      return corrupted_shard(
                 shard,
                 "SHA-256 does not match: use another checkpoint, or restore the file from a copy")
          .within(folder_.string());
  }
  return {};
}

Result<void> Checkpoint::stream_tensor(std::string_view name, TensorPart part,
                                       const std::function<Result<void>(ByteView)>& sink) const {
  const ParameterRecord* parameter = find_parameter(manifest_, name);
  std::int32_t index = parameter ? parameter->shard_of(part) : -1;
  if (index < 0)
    return Error{ErrorCode::not_found, "checkpoint " + folder_.string() + " holds no " +
                                           std::string(to_string(part)) + " of " +
                                           std::string(name)};
  const ShardRecord& shard = manifest_.shards[index];
  const TensorEntry* tensor = headers_[index].find(name);
  GPUNODE_CHECK(tensor != nullptr, "tensor that open() found is gone: " + std::string(name));
  Result<detail::ShardReader> reader = detail::ShardReader::open(*files_, folder_, shard);
  if (!reader) return reader.error().within(folder_.string());
  return reader->stream(headers_[index].data_offset + tensor->begin, tensor->end - tensor->begin,
                        sink);
}

Result<void> Checkpoint::read_tensor(std::string_view name, TensorPart part,
                                     std::span<float> target) const {
  const ParameterRecord* parameter = find_parameter(manifest_, name);
  if (parameter && (parameter->type != ElementType::f32 ||
                    tensor_bytes(parameter->type, parameter->shape) != target.size_bytes()))
    return Error{ErrorCode::invalid_argument,
                 std::string(name) + " has shape " + shape_text(parameter->shape) +
                     " in the checkpoint, which is not that of the model"};
  MutableByteView left = std::as_writable_bytes(target);
  return stream_tensor(name, part, [&](ByteView piece) -> Result<void> {
    if (!piece.empty()) std::memcpy(left.data(), piece.data(), piece.size());
    left = left.subspan(piece.size());
    return {};
  });
}

Result<void> Checkpoint::read_into(const StateTarget& target) const {
  for (const ParameterTarget& parameter : target.parameters) {
    const ParameterRecord* stored = find_parameter(manifest_, parameter.name);
    if (!stored)
      return Error{ErrorCode::invalid_argument, "the checkpoint has no parameter " +
                                                    parameter.name + ": it is of another model"};
    if (stored->shape != parameter.shape)
      return Error{ErrorCode::invalid_argument,
                   parameter.name + " has shape " + shape_text(stored->shape) +
                       " in the checkpoint and " + shape_text(parameter.shape) + " in the model"};
  }
  if (target.parameters.size() != manifest_.parameters.size())
    return Error{ErrorCode::invalid_argument,
                 "the checkpoint has " + std::to_string(manifest_.parameters.size()) +
                     " parameters and the model " + std::to_string(target.parameters.size())};
  for (const ParameterTarget& parameter : target.parameters) {
    for (TensorPart part : kTensorParts) {
      const std::span<float> span = parameter[part];
      if (span.empty() && (part != TensorPart::weight || span.data() == nullptr)) continue;
      if (Result<void> done = read_tensor(parameter.name, part, span); !done) return done;
    }
  }
  return {};
}

}  // namespace gpunode::snapshot
