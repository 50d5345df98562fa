#include "kernels/model/detail/stage_replays.hpp"

#include <utility>

namespace gpunode::model {

Result<void> StageReplays::run(const Stage& stage, ops::Backend& backend, tensor::Stream& stream,
                               tensor::Workspace& workspace, const graph::Places& places) {
  const auto plainly = [&] {
    return stage.executable->run(stage.number, backend, stream, workspace, places);
  };
  if (!backend.capabilities().notes_work) return plainly();
  const Key key{stage.executable, stage.number,      stage.workspace_bytes, places.slice,
                places.scratch,   places.parameters, places.constants,      places.gradient};
  const auto found = known_.find(key);
  if (found == known_.end()) {
    if (known_.size() == kMostKnown) {
      for (auto& [old_key, old] : known_)
        if (old.work) retired_.push_back(std::move(old.work));
      known_.clear();
    }
    known_.try_emplace(key);
    return plainly();
  }
  Known& known = found->second;
  if (!known.work && !known.is_refused) {
    auto noted = backend.note_work(stream, plainly);
    if (!noted) return noted.error();
    known.work = *std::move(noted);
    known.is_refused = !known.work;
  }
  return known.work ? backend.replay(stream, *known.work) : plainly();
}

void StageReplays::forget(const graph::Executable& executable) {
  for (auto at = known_.begin(); at != known_.end();) {
    if (at->first.executable != &executable) {
      ++at;
      continue;
    }
    if (at->second.work) retired_.push_back(std::move(at->second.work));
    at = known_.erase(at);
  }
}

}  // namespace gpunode::model
