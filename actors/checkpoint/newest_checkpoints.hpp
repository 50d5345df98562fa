// The newest checkpoint of every job on this node's disk, and how old it is: what an operator wants
// to be warned of. Looked up when it is asked for, so that it is true after a restart and of jobs that
// are over; a manifest is read once, when it is new. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "runtime/snapshot/checkpoint_store.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::checkpoint {

class NewestCheckpoints {
 public:
  // `files` outlives it.
  NewestCheckpoints(storage::FileSystem& files, storage::Path root)
      : store_(files, std::move(root)) {}

  // Sets the series of each job to what is there now; those of a job without checkpoints vanish.
  void record(telemetry::Registry& metrics, std::chrono::system_clock::time_point now);

 private:
  struct Seen {
    snapshot::CheckpointKey key;
    std::string job_name;
    std::int64_t unix_seconds = 0;  // when it was made
  };
  void look();

  std::mutex mutex_;
  snapshot::CheckpointStore store_;
  std::map<JobId, Seen> newest_;
};

}  // namespace gpunode::checkpoint
