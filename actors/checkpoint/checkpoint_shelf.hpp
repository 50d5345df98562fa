// The checkpoints of one job on this node's disk, as the checkpoint actor uses them: written, read
// back, and looked through for the newest that is intact. Whatever turns out to be damaged is set
// aside at once, and remembered until the actor has told the job of it. Blocks for as long as the
// disk takes; one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/checkpoint/checkpoint_actor.hpp"
#include "actors/messages.hpp"

namespace gpunode::checkpoint {

class CheckpointShelf {
 public:
  explicit CheckpointShelf(CheckpointOptions options);

  const CheckpointOptions& options() const { return options_; }

  // Makes the state durable and lets retention remove older ones; gives the folder. One of the same
  // name that is there already counts if it is intact and of the same state; else it makes way.
  Result<std::string> write(const WriteCheckpoint& order);
  // The state of the newest checkpoint of this step.
  Result<SharedBytes> read(std::uint64_t step);
  // Sets those of this history after that step aside, durably. Fails with io_error,
  // permission_denied: some may have been.
  Result<void> give_up(const view::CheckpointName& after, const std::string& reason);
  // The job's newest view, as known here: what its states came from goes before what did not.
  void follow(const view::View& view) { view_ = view; }
  // The newest one whose every byte is as it was written, and what was lost since the last call.
  CheckpointsFound find();
  // Whether one was lost that find() has not told yet; also one that another hand set aside.
  bool has_lost();

 private:
  using Key = snapshot::CheckpointKey;

  Result<SharedBytes> read(const Key& key) const;
  Result<job::Checkpoint> check(const Key& key);
  Result<void> check_same(const snapshot::CheckpointMeta& meta);
  void lose(const Key& key, const Error& why);
  void note_damaged();
  Result<std::vector<Key>> keys() const;  // the best one last

  CheckpointOptions options_;
  snapshot::CheckpointStore store_;
  view::View view_;
  std::set<Key> intact_;                              // as written, or read, in this life
  std::map<Key, DamagedCheckpoint> in_place_;         // lost, and could not be moved
  std::map<storage::Path, DamagedCheckpoint> aside_;  // what was set aside
  std::vector<DamagedCheckpoint> lost_;               // to be told
  job::Checkpoint newest_;                            // as told last
};

}  // namespace gpunode::checkpoint
