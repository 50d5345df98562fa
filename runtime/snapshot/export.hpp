// The weights alone as one safetensors file: what other programs load, and what two runs compare.
// Its bytes are a function of model description and weights and of nothing else: no job, member,
// time or step is in it, tensors stand in the format's fixed order.
#pragma once

#include "runtime/snapshot/checkpoint.hpp"
#include "runtime/snapshot/safetensors_file.hpp"
#include "runtime/snapshot/state_view.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::snapshot {

using Export = Written;

// Writes the file, replacing what is there, durably and all or nothing. Fails with corrupted (bad
// block of a shard), disk_full, permission_denied.
Result<Export> export_weights(storage::FileSystem& files, const Checkpoint& checkpoint,
                              const storage::Path& path);
// The same from memory: equal bytes for equal weights.
Result<Export> export_weights(storage::FileSystem& files, const ModelDescription& model,
                              const StateView& state, const storage::Path& path);
// What a file's header says of the model, as metadata_of() wrote it. Fails with: invalid_argument (it is
// not of gpunode's).
std::map<std::string, std::string> metadata_of(const ModelDescription& model);
Result<ModelDescription> described_in(const SafetensorsFile& file);
// Fills the targets' weights, of those that have a place for them, from an exported (or any fp32) file.
// Fails with corrupted, invalid_argument naming the first parameter that is missing or has another shape.
Result<void> load_exported(const SafetensorsFile& file, const StateTarget& target);

}  // namespace gpunode::snapshot
