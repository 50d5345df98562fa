// The checkpoints of one node: written so that a name that can be seen is a checkpoint that
// survives power loss. A write goes to a hidden temporary folder, every file is fsynced, the folder
// renamed, the folder above fsynced; only then write() returns success and the step may be called
// durable. Owner: the checkpoint actor (writes, retention); readers may be on other threads. Cost
// of a write: one pass over the state (SHA-256 and XXH3, about 1.3 GB/s a core) plus the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/snapshot/checkpoint.hpp"
#include "runtime/snapshot/manifest.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::snapshot {

struct StoreOptions {
  // A shard takes tensors until it has this many bytes. Larger: fewer files; smaller: copies and
  // repairs in finer parts. One tensor is never cut.
  std::uint64_t shard_bytes = 1u << 30;
};

struct Retention {
  std::uint32_t newest = 3;       // this many newest stay; at least 1 always does
  std::uint64_t every_steps = 0;  // and every one whose step is a multiple; 0: no others
  // The job's durable floor: the newest one that was told to be durable. It stays, whatever its
  // age; none: not known.
  std::optional<CheckpointKey> durable = {};
  std::vector<CheckpointKey> keep = {};  // these stay as well
};

// Which of `keys` retention gives up: a pure function, oldest first. Of each job the one of the
// highest step stays too, until the durable floor is newer: a rollback makes later ones that are
// behind it in steps, and until one of those is durable it may be the furthest that there is.
std::vector<CheckpointKey> expired(std::vector<CheckpointKey> keys, const Retention& retention);

// A checkpoint that cannot be used: whose name it had, where its files are kept, and why.
struct Damaged {
  CheckpointKey key;
  storage::Path path;
  std::string reason;
};

// Whether an error of reading tells that the checkpoint itself is at fault, and not that this
// process lacks memory, files or rights for now, or is too old for it.
bool is_damage(ErrorCode code);

class CheckpointStore {
 public:
  // `files` must outlive the store; `root` is created at the first write.
  CheckpointStore(storage::FileSystem& files, storage::Path root, StoreOptions options = {})
      : files_(&files), root_(std::move(root)), options_(options) {}

  // Writes the state; durable when it returns success. Fault points on the way, with the step:
  // "checkpoint.shard" (a shard is on disk), "checkpoint" (all is, under the hidden name),
  // "checkpoint.renamed" (visible, its name not yet synced).
  // Fails with disk_full, io_error, permission_denied; already_exists if the key is there.
  // After a failure: the temporary is gone and earlier checkpoints are untouched.
  Result<Manifest> write(const CheckpointMeta& meta, const StateView& state);

  // Durable checkpoints of a job, oldest first; empty if there is none.
  Result<std::vector<CheckpointKey>> list(const JobId& job) const;
  // Of all jobs, by job, then age.
  Result<std::vector<CheckpointKey>> list() const;
  // Fails with not_found, corrupted, unsupported.
  Result<Checkpoint> open(const CheckpointKey& key) const;
  // Reads every byte, telling how far it is. Fails with corrupted, naming shard and byte range.
  Result<void> verify(const CheckpointKey& key, const ReadProgress& progress = {}) const;

  // Removes in one visible moment: it vanishes from list() first.
  Result<void> remove(const CheckpointKey& key);
  // Removes the job's checkpoint of this step, or all that it has; returns what was removed. Fails
  // with not_found when there is none.
  Result<std::vector<CheckpointKey>> remove_of(const JobId& job, std::optional<std::uint64_t> step);
  // Moves one that cannot be used to <job>/damaged/<key>-<n>, durably, with the reason in a file:
  // it is no checkpoint any more, and no function here deletes or replaces it.
  // Fails with not_found, io_error, permission_denied. A disk that is too full for the reason does
  // not keep it from being moved.
  Result<Damaged> set_aside(const CheckpointKey& key, const std::string& reason);
  // Those of a job that were set aside, oldest first; empty if there is none.
  Result<std::vector<Damaged>> damaged(const JobId& job) const;
  // Removes what retention gives up; returns what was removed.
  Result<std::vector<CheckpointKey>> apply(const JobId& job, const Retention& retention);
  // Removes what a crash left half written or half removed. Call before the first write.
  Result<void> clean_up();

  storage::Path path_of(const CheckpointKey& key) const { return root_ / key.folder(); }

 private:
  Result<Manifest> write_parts(const CheckpointMeta& meta, const StateView& state,
                               const storage::Path& temporary);

  storage::FileSystem* files_;
  storage::Path root_;
  StoreOptions options_;
};

}  // namespace gpunode::snapshot
