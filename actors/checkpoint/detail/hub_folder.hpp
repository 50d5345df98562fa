// The folders of Hugging Face's transformers and of timm, and torchvision's files of weights alone,
// behind stored_model.hpp: config.json as a flat map and back, and the tensors of one or several
// files as our parameters.
#pragma once

#include "actors/checkpoint/stored_model.hpp"

namespace gpunode::checkpoint::detail {

Result<OpenedModel> open_hub_folder(const storage::FileSystem& files, const storage::Path& folder,
                                    LoadOptions options);
// A file that has no config beside it: its tensors have to say what model they are.
Result<OpenedModel> open_state_dict(snapshot::SafetensorsFile file, LoadOptions options);
Result<snapshot::Export> save_hub_folder(storage::FileSystem& files, const StoredModel& stored,
                                         const storage::Path& folder);

}  // namespace gpunode::checkpoint::detail
