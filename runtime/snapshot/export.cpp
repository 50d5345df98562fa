#include "runtime/snapshot/export.hpp"

namespace gpunode::snapshot {
namespace {

using storage::Path;

constexpr const char* kKindKey = "model";
constexpr std::string_view kSettingPrefix = "model.";

}  // namespace

std::map<std::string, std::string> metadata_of(const ModelDescription& model) {
  std::map<std::string, std::string> metadata{{"format", "gpunode"}, {kKindKey, model.kind}};
  for (const auto& [key, value] : model.settings)
    metadata.emplace(std::string(kSettingPrefix) + key, value);
  return metadata;
}

Result<Export> export_weights(storage::FileSystem& files, const Checkpoint& checkpoint,
                              const Path& path) {
  std::vector<TensorEntry> tensors;
  for (const ParameterRecord& parameter : checkpoint.manifest().parameters)
    tensors.push_back({parameter.name, parameter.type, parameter.shape, 0, 0});
  SafetensorsHeader header =
      plan_safetensors(std::move(tensors), metadata_of(checkpoint.manifest().meta.model));
  return write_safetensors(files, header, path,
                           [&](const TensorEntry& tensor, const TensorSink& sink) {
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
  return write_safetensors(files, header, path,
                           [&](const TensorEntry& tensor, const TensorSink& sink) {
                             return sink(bytes_of(values.at(tensor.name)));
                           });
}

Result<ModelDescription> described_in(const SafetensorsFile& file) {
  ModelDescription model;
  for (const auto& [key, value] : file.header().metadata) {
    if (key == kKindKey)
      model.kind = value;
    else if (key.starts_with(kSettingPrefix))
      model.settings.emplace(key.substr(kSettingPrefix.size()), value);
  }
  if (model.kind.empty())
    return Error{
        ErrorCode::invalid_argument,
        file.path().string() + " does not say which model it is of: gpunode did not write it"};
  return model;
}

Result<void> load_exported(const SafetensorsFile& file, const StateTarget& target) {
  const SafetensorsHeader& header = file.header();
  std::vector<const TensorEntry*> found;
  for (const ParameterTarget& parameter : target.parameters) {
    const TensorEntry* tensor = header.find(parameter.name);
    const std::string what = file.path().string() + ": " + parameter.name;
    if (!tensor) return Error{ErrorCode::invalid_argument, what + " is missing"};
    if (tensor->shape != parameter.shape)
      return Error{ErrorCode::invalid_argument, what + " has shape " + shape_text(tensor->shape) +
                                                    ", the model has " +
                                                    shape_text(parameter.shape)};
    if (tensor->type != ElementType::f32 ||
        tensor->end - tensor->begin != tensor_bytes(ElementType::f32, parameter.shape))
      return Error{ErrorCode::invalid_argument, what + " does not hold fp32 numbers"};
    found.push_back(tensor);
  }
  if (header.tensors.size() != found.size())
    return Error{ErrorCode::invalid_argument,
                 file.path().string() + " has " + std::to_string(header.tensors.size()) +
                     " tensors and the model " + std::to_string(found.size())};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::span<float> span = target.parameters[i][TensorPart::weight];
    if (!span.data()) continue;
    if (Result<void> done = file.read(*found[i], span); !done) return done;
  }
  return {};
}

}  // namespace gpunode::snapshot
