#include "actors/inference/detail/job_checkpoints.hpp"

#include "runtime/base/log.hpp"

namespace gpunode::inference {

Error set_aside(snapshot::CheckpointStore& store, const snapshot::CheckpointKey& key,
                const Error& why) {
  auto aside = store.set_aside(key, why.message());
  const std::string text =
      "the checkpoint of step " + std::to_string(key.step) + " of job " +
      key.job.text().substr(0, 8) + " is damaged: " + why.message() + "; " +
      (aside ? "it is kept in " + aside->path.string() : aside.error().message());
  log::warning("serving", text);
  return {ErrorCode::corrupted,
          text +
              "; another `gpunode serve` takes the newest one that is left on this node, if "
              "there is one, and another node may hold it whole (`gpunode checkpoint ls` there)"};
}

Result<snapshot::CheckpointKey> newest_checkpoint(const ServingOptions& options,
                                                  const std::string& job, bool any) {
  snapshot::CheckpointStore store(*options.files, options.checkpoints);
  auto keys = store.list();
  if (!keys && keys.error().code != ErrorCode::not_found) return keys.error();
  std::optional<snapshot::CheckpointKey> newest;
  std::optional<Error> damage;  // of one that is newer
  for (const snapshot::CheckpointKey& key : keys ? *keys : std::vector<snapshot::CheckpointKey>{}) {
    if (key.job.text() != job) continue;
    auto checkpoint = store.open(key);
    if (checkpoint) {
      newest = key;
      damage.reset();
    } else if (checkpoint.error().code == ErrorCode::corrupted) {
      damage = set_aside(store, key, checkpoint.error());
    }
  }
  if (damage && !any) return *damage;
  if (!newest)
    return Error{ErrorCode::not_found,
                 "no durable checkpoint of it is on this node; `gpunode "
                 "checkpoint ls` lists them on the nodes that have one"};
  return *newest;
}

}  // namespace gpunode::inference
