// A model with its weights, from whatever holds one: a folder of Hugging Face's transformers or, of
// a ResNet, timm (config.json and model.safetensors), a state_dict of torchvision's as safetensors, a
// file that `checkpoint export` or `model import` wrote, or a checkpoint's folder; and written for
// them again. Blocks for as long as the disk takes. Read parameter by parameter, or as a whole at 4 bytes a
// parameter. No state.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/checkpoint/model_content.hpp"
#include "kernels/model/hub_weights.hpp"
#include "runtime/snapshot/export.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::checkpoint {

// A stored model before its weights are read.
struct OpenedModel {
  // Gets each parameter's values, in the order of the model's.
  using TakeParameter = std::function<Result<void>(std::size_t parameter, std::span<const float>)>;
  std::unique_ptr<model::Model> model;
  std::uint64_t step = 0;            // of a checkpoint; else 0
  std::vector<TextFile> texts = {};  // of a folder of transformers: config.json and its like
  // While `model` lives. Fails with: corrupted, io_error, what is given fails with.
  std::function<Result<void>(const TakeParameter&)> read = {};
};

struct StoredModel {
  std::unique_ptr<model::Model> model;
  std::vector<float> weights;  // parameter_count()
  std::uint64_t step = 0;      // of a checkpoint; else 0
};

struct LoadOptions {
  // Of a transformers folder whose model has no table of positions: how many it shall read at most;
  // 0: as many as its config says.
  std::int64_t context = 0;
  model::ImageSize image = {};  // of a ResNet: see model_of_shapes
};

// Fail with: not_found; corrupted; unsupported (a model that is not known here, and what of it);
// invalid_argument (a tensor that is missing, is one too many, or has another shape: its name, the
// shape found and the one expected).
Result<OpenedModel> open_stored_model(const storage::FileSystem& files, const storage::Path& path,
                                      LoadOptions options = {});
Result<StoredModel> load_stored_model(const storage::FileSystem& files, const storage::Path& path,
                                      LoadOptions options = {});

// Writes one file that jobs start from and nodes serve. Fails with: disk_full, permission_denied.
Result<snapshot::Export> save_model(storage::FileSystem& files, const StoredModel& stored,
                                    const storage::Path& path);
// Writes config.json and model.safetensors into the folder, which is made; the latter's digest and
// size. A ResNet's is for timm, its tensors for torchvision's load_state_dict too. Fails with:
// unsupported (none of them has such a model), disk_full, permission_denied.
Result<snapshot::Export> save_for_transformers(storage::FileSystem& files,
                                               const StoredModel& stored,
                                               const storage::Path& folder);

}  // namespace gpunode::checkpoint
