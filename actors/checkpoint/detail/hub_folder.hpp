// The folders of Hugging Face's transformers behind stored_model.hpp: config.json as a flat map and
// back, and the tensors of one or several files into our flat vector.
#pragma once

#include "actors/checkpoint/stored_model.hpp"

namespace gpunode::checkpoint::detail {

Result<StoredModel> load_hub_folder(const storage::FileSystem& files, const storage::Path& folder,
                                    LoadOptions options);
Result<snapshot::Export> save_hub_folder(storage::FileSystem& files, const StoredModel& stored,
                                         const storage::Path& folder);

}  // namespace gpunode::checkpoint::detail
