#include "actors/checkpoint/detail/hub_folder.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "actors/checkpoint/detail/float_room.hpp"
#include "actors/checkpoint/detail/hub_text.hpp"
#include "kernels/model/hub_weights.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/snapshot/safetensors_file.hpp"

namespace gpunode::checkpoint::detail {
namespace {

using model::HubConfig;
using model::HubTensor;
using nlohmann::json;
using snapshot::SafetensorsFile;
using snapshot::TensorEntry;
using storage::Path;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

Error bad(const Path& path, const std::string& what) {
  return {ErrorCode::invalid_argument, path.string() + ": " + what};
}

// Objects and lists within objects within the document, and nothing deeper.
void flatten(const json& object, const std::string& prefix, HubConfig& config, int depth = 0) {
  constexpr int kDeepest = 2;
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    if (value.is_null())
      config[name] = std::monostate{};
    else if (value.is_boolean())
      config[name] = value.get<bool>();
    else if (value.is_number_integer())
      config[name] = value.get<std::int64_t>();
    else if (value.is_number())
      config[name] = value.get<double>();
    else if (value.is_string())
      config[name] = value.get<std::string>();
    else if (depth < kDeepest)
      flatten(value, name + ".", config, depth + 1);
  }
}

json unflattened(const HubConfig& config) {
  json pointers = json::object();
  for (const auto& [key, value] : config) {
    std::string pointer = "/" + key;
    std::ranges::replace(pointer, '.', '/');
    json& at = pointers[pointer];
    std::visit(
        [&](const auto& one) {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::monostate>)
            at = nullptr;
          else
            at = one;
        },
        value);
  }
  return pointers.unflatten();
}

// The files that hold the folder's tensors.
Result<std::vector<SafetensorsFile>> open_weights(const storage::FileSystem& files,
                                                  const Path& folder) {
  std::set<std::string> names;
  if (files.exists(folder / kWeights)) {
    names.insert(kWeights);
  } else if (files.exists(folder / kIndex)) {
    auto index = read_json(files, folder / kIndex);
    if (!index) return index.error();
    const auto map = index->find("weight_map");
    if (map == index->end() || !map->is_object()) return bad(folder / kIndex, "has no weight_map");
    for (const auto& [tensor, file] : map->items()) {
      if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
        return bad(folder / kIndex, "the file of " + tensor + " is no name");
      names.insert(file.get<std::string>());
    }
  } else {
    return Error{ErrorCode::not_found,
                 folder.string() + " has neither " + kWeights + " nor " + kIndex +
                     ": save the model with save_pretrained(..., safe_serialization=True)"};
  }
  std::vector<SafetensorsFile> opened;
  for (const std::string& name : names) {
    auto file = SafetensorsFile::open(files, folder / name);
    if (!file) return file.error();
    opened.push_back(std::move(*file));
  }
  return opened;
}

struct Found {
  const SafetensorsFile* file;
  const TensorEntry* entry;
};

// What the files hold of a name, by the name.
using Holdings = std::map<std::string, Found, std::less<>>;

Result<Holdings> holdings_of(const std::vector<SafetensorsFile>& files) {
  Holdings holdings;
  for (const SafetensorsFile& file : files)
    for (const TensorEntry& entry : file.header().tensors)
      if (!holdings.emplace(entry.name, Found{&file, &entry}).second)
        return bad(file.path(), entry.name + " stands in another file too");
  return holdings;
}

std::vector<std::uint64_t> unsigned_shape(const HubTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

// Takes the tensor out of the holdings.
Result<Found> take(const Path& folder, const HubTensor& tensor, Holdings& holdings) {
  auto found = holdings.find(tensor.name);
  for (const std::string& other : tensor.others)
    if (found == holdings.end()) found = holdings.find(other);
  const std::string expected = snapshot::shape_text(unsigned_shape(tensor));
  if (found == holdings.end())
    return bad(folder, tensor.name + " of shape " + expected + " is missing");
  const Found taken = found->second;
  if (taken.entry->shape != unsigned_shape(tensor))
    return bad(taken.file->path(), found->first + " has shape " +
                                       snapshot::shape_text(taken.entry->shape) +
                                       ", its config.json asks for " + expected);
  holdings.erase(found);
  return taken;
}

model::HubShapes shapes_of(const std::vector<SafetensorsFile>& files) {
  model::HubShapes shapes;
  for (const SafetensorsFile& file : files)
    for (const TensorEntry& entry : file.header().tensors)
      shapes[entry.name].assign(entry.shape.begin(), entry.shape.end());
  return shapes;
}

// Which of their tensors make up our parameters, in the order of these.
struct Source {
  std::vector<SafetensorsFile> files;
  std::vector<HubTensor> tensors;
  std::vector<Found> found;  // by tensor
};

Result<void> read_parameters(const model::Model& model, const Source& source,
                             const OpenedModel::TakeParameter& take) {
  FloatRoom their_room, our_room;
  std::size_t first = 0, tensor = 0;
  for (std::size_t at = 0; at < model.parameters().size(); ++at) {
    const model::ParameterSpec& parameter = model.parameters()[at];
    const auto ours = our_room.of(parameter.element_count());
    if (!ours) return ours.error();
    for (; tensor < source.tensors.size() && source.tensors[tensor].parameter == parameter.name;
         ++tensor) {
      HubTensor within = source.tensors[tensor];
      within.first -= first;
      const auto theirs = their_room.of(within.element_count());
      if (!theirs) return theirs.error();
      const Found& found = source.found[tensor];
      if (auto read = found.file->read(*found.entry, *theirs); !read) return read;
      model::from_hub(within, *theirs, *ours);
    }
    if (auto taken = take(at, *ours); !taken) return taken;
    first += ours->size();
  }
  return {};
}

// The described model with what the files hold for it; `from` is where they are.
Result<OpenedModel> open(const Path& from, const model::HubDescription& description,
                         std::vector<SafetensorsFile> files) {
  auto made = model::make_model(description.kind, description.settings);
  if (!made) return made.error().within(from.string());
  auto tensors = model::hub_tensors(**made);
  if (!tensors) return tensors.error();
  const auto source = std::make_shared<Source>(Source{std::move(files), *std::move(tensors), {}});
  auto holdings = holdings_of(source->files);
  if (!holdings) return holdings.error();
  // All is found before memory is taken for it: a configuration may ask for any amount.
  for (const HubTensor& tensor : source->tensors) {
    const auto found = take(from, tensor, *holdings);
    if (!found) return found.error();
    source->found.push_back(*found);
  }
  OpenedModel opened{.model = std::move(*made)};
  for (const auto& [name, found] : *holdings)
    if (!model::hub_passes_over(*opened.model, name))
      return bad(found.file->path(),
                 name + " of shape " + snapshot::shape_text(found.entry->shape) +
                     " belongs to nothing that " + opened.model->name() + " has");
  opened.read = [source, &model = *opened.model](const OpenedModel::TakeParameter& take) {
    return read_parameters(model, *source, take);
  };
  return opened;
}

Result<OpenedModel> open_by_shapes(const Path& from, const HubConfig& config,
                                   std::vector<SafetensorsFile> files, LoadOptions options) {
  const auto description = model::model_of_shapes(shapes_of(files), config, options.image);
  if (!description) return description.error().within(from.string());
  return open(from, *description, std::move(files));
}

}  // namespace

Result<OpenedModel> open_hub_folder(const storage::FileSystem& files, const Path& folder,
                                    LoadOptions options) {
  auto texts = read_texts(files, folder);
  if (!texts) return texts.error();
  auto document = config_in(*texts);
  if (!document) return document.error().within(folder.string());
  HubConfig config;
  flatten(*document, "", config);
  const bool is_timm = config.contains("architecture") && !config.contains("model_type");
  auto description =
      is_timm ? model::HubDescription{} : model::model_of_hub(config, options.context);
  if (!description) return description.error().within(folder.string());
  auto opened = open_weights(files, folder);
  if (!opened) return opened.error();
  if (is_timm) return open_by_shapes(folder, config, *std::move(opened), options);
  auto stored = open(folder, *description, *std::move(opened));
  if (!stored) return stored;
  stored->texts = *std::move(texts);
  return stored;
}

Result<OpenedModel> open_state_dict(SafetensorsFile file, LoadOptions options) {
  const Path path = file.path();
  std::vector<SafetensorsFile> opened;
  opened.push_back(std::move(file));
  return open_by_shapes(path, {}, std::move(opened), options);
}

Result<snapshot::Export> save_hub_folder(storage::FileSystem& files, const StoredModel& stored,
                                         const Path& folder) {
  const auto config = model::hub_config_of(*stored.model);
  if (!config) return config.error();
  const auto tensors = model::hub_tensors(*stored.model);
  if (!tensors) return tensors.error();
  std::vector<TensorEntry> entries;
  std::map<std::string_view, const HubTensor*> by_name;
  for (const HubTensor& tensor : *tensors) {
    entries.push_back({tensor.name, snapshot::ElementType::f32, unsigned_shape(tensor), 0, 0});
    by_name[tensor.name] = &tensor;
  }
  if (auto done = files.create_folder(folder); !done) return done.error();
  const std::string text = unflattened(*config).dump(2) + "\n";
  if (auto done = files.write_atomic(folder / kConfig, {as_bytes(text)}); !done)
    return done.error();
  const auto header = snapshot::plan_safetensors(std::move(entries), {{"format", "pt"}});
  std::vector<float> values;
  return snapshot::write_safetensors(
      files, header, folder / kWeights,
      [&](const TensorEntry& entry, const snapshot::TensorSink& sink) {
        const HubTensor& tensor = *by_name.at(entry.name);
        values.resize(tensor.element_count());
        model::to_hub(tensor, stored.weights, values);
        return sink(bytes_of(std::span<const float>(values)));
      });
}

}  // namespace gpunode::checkpoint::detail
