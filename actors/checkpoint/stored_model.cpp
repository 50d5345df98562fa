#include "actors/checkpoint/stored_model.hpp"

#include "actors/checkpoint/detail/float_room.hpp"
#include "actors/checkpoint/detail/hub_folder.hpp"
#include "actors/named_tensors.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/snapshot/checkpoint.hpp"

namespace gpunode::checkpoint {
namespace {

using Read = std::function<Result<void>(const snapshot::StateTarget&)>;

// The described model, whose weights `read` fills in, where there is a place for them, from so many
// bytes; less than they take, and the description is wrong, for which no memory is to be spent.
Result<OpenedModel> described(const snapshot::ModelDescription& description, std::uint64_t step,
                              std::uint64_t stored_bytes, Read read) {
  auto model = model::make_model(description.kind, description.settings);
  if (!model) return model.error();
  if (stored_bytes / sizeof(float) < (*model)->parameter_count())
    return Error{ErrorCode::corrupted,
                 "what is stored has " + std::to_string(stored_bytes) + " bytes, and " +
                     (*model)->name() + " as it is described has " +
                     std::to_string((*model)->parameter_count()) + " parameters"};
  OpenedModel opened{.model = std::move(*model), .step = step};
  opened.read = [&model = *opened.model,
                 read = std::move(read)](const OpenedModel::TakeParameter& take) -> Result<void> {
    snapshot::StateTarget target = named_tensors(model, std::span<float>());
    detail::FloatRoom room;
    for (std::size_t at = 0; at < target.parameters.size(); ++at) {
      auto& place = target.parameters[at].parts[0];
      const auto values = room.of(model.parameters()[at].element_count());
      if (!values) return values.error();
      place = *values;
      if (auto done = read(target); !done) return done;
      if (auto done = take(at, *values); !done) return done;
      place = {};
    }
    return {};
  };
  return opened;
}

Result<OpenedModel> open_checkpoint(const storage::FileSystem& files, const storage::Path& path) {
  auto opened = snapshot::Checkpoint::open(files, path);
  if (!opened) return opened.error();
  const auto checkpoint = std::make_shared<const snapshot::Checkpoint>(std::move(*opened));
  const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
  return described(
      meta.model, meta.key.step, checkpoint->manifest().size_bytes(),
      [=](const snapshot::StateTarget& target) { return checkpoint->read_into(target); });
}

Result<OpenedModel> open_file(const storage::FileSystem& files, const storage::Path& path,
                              LoadOptions options) {
  auto opened = snapshot::SafetensorsFile::open(files, path);
  if (!opened) return opened.error();
  const auto description = snapshot::described_in(*opened);
  if (!description) return detail::open_state_dict(*std::move(opened), options);
  const auto entry = files.inspect(path);
  if (!entry) return entry.error();
  const auto file = std::make_shared<const snapshot::SafetensorsFile>(*std::move(opened));
  return described(*description, 0, entry->size_bytes, [=](const snapshot::StateTarget& target) {
    return snapshot::load_exported(*file, target);
  });
}

}  // namespace

Result<OpenedModel> open_stored_model(const storage::FileSystem& files, const storage::Path& path,
                                      LoadOptions options) {
  auto entry = files.inspect(path);
  if (!entry) return entry.error();
  if (entry->kind != storage::EntryKind::folder) return open_file(files, path, options);
  if (files.exists(path / "config.json")) return detail::open_hub_folder(files, path, options);
  if (!files.exists(path / "manifest"))
    return Error{ErrorCode::not_found, path.string() +
                                           " holds neither config.json, as models of transformers "
                                           "and timm have it, nor a checkpoint's manifest"};
  return open_checkpoint(files, path);
}

Result<StoredModel> load_stored_model(const storage::FileSystem& files, const storage::Path& path,
                                      LoadOptions options) {
  auto opened = open_stored_model(files, path, options);
  if (!opened) return opened.error();
  std::vector<float> weights;
  weights.reserve(opened->model->parameter_count());
  auto read = opened->read([&](std::size_t, std::span<const float> values) -> Result<void> {
    weights.insert(weights.end(), values.begin(), values.end());
    return {};
  });
  if (!read) return read.error();
  return StoredModel{std::move(opened->model), std::move(weights), opened->step};
}

Result<snapshot::Export> save_model(storage::FileSystem& files, const StoredModel& stored,
                                    const storage::Path& path) {
  return snapshot::export_weights(
      files, {stored.model->kind(), stored.model->config()},
      named_tensors(*stored.model, std::span<const float>(stored.weights)), path);
}

Result<snapshot::Export> save_for_transformers(storage::FileSystem& files,
                                               const StoredModel& stored,
                                               const storage::Path& folder) {
  return detail::save_hub_folder(files, stored, folder);
}

}  // namespace gpunode::checkpoint
