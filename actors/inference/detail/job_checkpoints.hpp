// Which checkpoint of a job is served: the newest that is whole; a damaged one is set aside.
#pragma once

#include <string>

#include "actors/inference/serving_actor.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::inference {

// Its job's node notices, and looks for what is left. Tells what was done, and logs it.
Error set_aside(snapshot::CheckpointStore& store, const snapshot::CheckpointKey& key,
                const Error& why);

// The newest durable checkpoint of the job with this id. Those that turn out to be damaged on the
// way are set aside; `any`: an older one does as well then, else corrupted is the answer. Fails with:
// not_found, corrupted, what the disk fails with.
Result<snapshot::CheckpointKey> newest_checkpoint(const ServingOptions& options,
                                                  const std::string& job, bool any);

}  // namespace gpunode::inference
