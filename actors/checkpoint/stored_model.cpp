#include "actors/checkpoint/stored_model.hpp"

#include "actors/checkpoint/detail/hub_folder.hpp"
#include "actors/named_tensors.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/snapshot/checkpoint.hpp"

namespace gpunode::checkpoint {
namespace {

// The described model, whose weights `read` fills in from so many bytes; less than they take, and the
// description is wrong, for which no memory is to be spent.
template <class Read>
Result<StoredModel> load_weights(const snapshot::ModelDescription& description, std::uint64_t step,
                                 std::uint64_t stored_bytes, Read read) {
  auto model = model::make_model(description.kind, description.settings);
  if (!model) return model.error();
  if (stored_bytes / sizeof(float) < (*model)->parameter_count())
    return Error{ErrorCode::corrupted,
                 "what is stored has " + std::to_string(stored_bytes) + " bytes, and " +
                     (*model)->name() + " as it is described has " +
                     std::to_string((*model)->parameter_count()) + " parameters"};
  StoredModel stored{.model = std::move(*model), .weights = {}, .step = step};
  stored.weights.resize(stored.model->parameter_count());
  Result<void> done = read(named_tensors(*stored.model, std::span(stored.weights)));
  if (!done) return done.error();
  return stored;
}

Result<StoredModel> load_checkpoint(const storage::FileSystem& files, const storage::Path& path) {
  auto checkpoint = snapshot::Checkpoint::open(files, path);
  if (!checkpoint) return checkpoint.error();
  const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
  return load_weights(
      meta.model, meta.key.step, checkpoint->manifest().size_bytes(),
      [&](const snapshot::StateTarget& target) { return checkpoint->read_into(target); });
}

Result<StoredModel> load_file(const storage::FileSystem& files, const storage::Path& path,
                              LoadOptions options) {
  auto description = snapshot::read_exported_model(files, path);
  if (!description && description.error().code == ErrorCode::invalid_argument)
    return detail::load_state_dict(files, path, options);
  if (!description) return description.error();
  const auto entry = files.inspect(path);
  if (!entry) return entry.error();
  return load_weights(*description, 0, entry->size_bytes, [&](const snapshot::StateTarget& target) {
    return snapshot::load_exported(files, path, target);
  });
}

}  // namespace

Result<StoredModel> load_stored_model(const storage::FileSystem& files, const storage::Path& path,
                                      LoadOptions options) {
  auto entry = files.inspect(path);
  if (!entry) return entry.error();
  if (entry->kind != storage::EntryKind::folder) return load_file(files, path, options);
  if (files.exists(path / "config.json")) return detail::load_hub_folder(files, path, options);
  if (!files.exists(path / "manifest"))
    return Error{ErrorCode::not_found, path.string() +
                                           " holds neither config.json, as models of transformers "
                                           "and timm have it, nor a checkpoint's manifest"};
  return load_checkpoint(files, path);
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
