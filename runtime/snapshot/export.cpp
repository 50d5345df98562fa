#include "runtime/snapshot/export.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/snapshot/safetensors.hpp"

namespace gpunode::snapshot {
namespace {

using storage::Path;
using Sink = std::function<Result<void>(ByteView)>;

constexpr const char* kKindKey = "model";
constexpr std::string_view kSettingPrefix = "model.";
constexpr std::uint64_t kPieceBytes = 1u << 20;

std::map<std::string, std::string> metadata_of(const ModelDescription& model) {
  std::map<std::string, std::string> metadata{{"format", "gpunode"}, {kKindKey, model.kind}};
  for (const auto& [key, value] : model.settings)
    metadata.emplace(std::string(kSettingPrefix) + key, value);
  return metadata;
}

// Writes header and tensors; `feed` hands a tensor's bytes to a sink.
Result<Export> write_file(
    storage::FileSystem& files, const SafetensorsHeader& header, const Path& path,
    const std::function<Result<void>(const TensorEntry&, const Sink&)>& feed) {
  storage::Sha256Stream hash;
  const auto fill = [&](storage::WritableFile& file) -> Result<void> {
    const Sink sink = [&](ByteView bytes) -> Result<void> {
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
  return Export{hash.finish(), header.file_bytes()};
}

Result<SafetensorsHeader> read_header(const storage::ReadableFile& file, const Path& path) {
  Bytes head(8);
  if (file.size_bytes() < 8)
    return Error{ErrorCode::corrupted, path.string() + ": not a valid safetensors file: empty"};
  if (Result<void> done = file.read_at(0, head); !done) return done.error();
  Result<std::uint64_t> length = safetensors_header_bytes(head, file.size_bytes());
  if (!length) return length.error().within(path.string());
  head.resize(*length);
  if (Result<void> done = file.read_at(0, head); !done) return done.error();
  Result<SafetensorsHeader> header = decode_safetensors_header(head, file.size_bytes());
  if (!header) return header.error().within(path.string());
  return header;
}

}  // namespace

Result<Export> export_weights(storage::FileSystem& files, const Checkpoint& checkpoint,
                              const Path& path) {
  std::vector<TensorEntry> tensors;
  for (const ParameterRecord& parameter : checkpoint.manifest().parameters)
    tensors.push_back({parameter.name, parameter.type, parameter.shape, 0, 0});
  SafetensorsHeader header =
      plan_safetensors(std::move(tensors), metadata_of(checkpoint.manifest().meta.model));
  return write_file(files, header, path, [&](const TensorEntry& tensor, const Sink& sink) {
    return checkpoint.stream_tensor(tensor.name, TensorPart::weight, sink);
  });
}

Result<Export> export_weights(storage::FileSystem& files, const ModelDescription& model,
                              const StateView& state, const Path& path) {
  std::vector<TensorEntry> tensors;
  std::map<std::string_view, std::span<const float>> values;
  for (const ParameterView& parameter : state.parameters) {
    std::optional<std::uint64_t> bytes = tensor_bytes(ElementType::f32, parameter.shape);
    if (bytes != parameter[TensorPart::weight].size_bytes() ||
        !values.emplace(parameter.name, parameter[TensorPart::weight]).second)
      return Error{ErrorCode::invalid_argument,
                   "export: values, shape or name of " + parameter.name + " are wrong"};
    tensors.push_back({parameter.name, ElementType::f32, parameter.shape, 0, 0});
  }
  SafetensorsHeader header = plan_safetensors(std::move(tensors), metadata_of(model));
  return write_file(files, header, path, [&](const TensorEntry& tensor, const Sink& sink) {
    return sink(bytes_of(values.at(tensor.name)));
  });
}

Result<ModelDescription> read_exported_model(const storage::FileSystem& files, const Path& path) {
  Result<std::unique_ptr<storage::ReadableFile>> file = files.open(path);
  if (!file) return file.error();
  Result<SafetensorsHeader> header = read_header(**file, path);
  if (!header) return header.error();
  ModelDescription model;
  for (const auto& [key, value] : header->metadata) {
    if (key == kKindKey)
      model.kind = value;
    else if (key.starts_with(kSettingPrefix))
      model.settings.emplace(key.substr(kSettingPrefix.size()), value);
  }
  if (model.kind.empty())
    return Error{ErrorCode::invalid_argument,
                 path.string() + " does not say which model it is of: gpunode did not write it"};
  return model;
}

Result<void> load_exported(const storage::FileSystem& files, const Path& path,
                           const StateTarget& target) {
  Result<std::unique_ptr<storage::ReadableFile>> file = files.open(path);
  if (!file) return file.error();
  Result<SafetensorsHeader> header = read_header(**file, path);
  if (!header) return header.error();
  std::vector<const TensorEntry*> found;
  for (const ParameterTarget& parameter : target.parameters) {
    const TensorEntry* tensor = header->find(parameter.name);
    if (!tensor || tensor->type != ElementType::f32 || tensor->shape != parameter.shape ||
        tensor->end - tensor->begin != parameter[TensorPart::weight].size_bytes())
      return Error{ErrorCode::invalid_argument,
                   path.string() + ": " + parameter.name + " is missing or of another shape"};
    found.push_back(tensor);
  }
  if (header->tensors.size() != found.size())
    return Error{ErrorCode::invalid_argument,
                 path.string() + " has " + std::to_string(header->tensors.size()) +
                     " tensors and the model " + std::to_string(found.size())};
  for (std::size_t i = 0; i < found.size(); ++i)
    if (Result<void> done =
            (*file)->read_at(header->data_offset + found[i]->begin,
                             std::as_writable_bytes(target.parameters[i][TensorPart::weight]));
        !done)
      return done;
  return {};
}

}  // namespace gpunode::snapshot
