// The loader: puts another state in place of this node's, one at a time: one that was fetched from
// peers, the checkpoint on its own disk, or the state before step 1, which follows from the
// manifest. Pure; owned by a JobCore.
//
//   state | load | loaded, this step     | the checkpoint is lost
//   idle  | asks | -                     | -
//   asks  | -    | idle, the state stands | idle, another view is wanted
#pragma once

#include <optional>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/state_transfer.hpp"
#include "runtime/job/watchdog.hpp"

namespace gpunode::job {

class Loader {
 public:
  Loader(JobContext& job, Watchdog& watchdog) : job_(job), watchdog_(watchdog) {}

  void load(FetchedState fetched, Actions& out);
  void restore(const Checkpoint& checkpoint, Actions& out);  // step 0: of the manifest
  // The very state that the view starts from, if it is at hand without a peer.
  std::optional<Checkpoint> at_hand() const;
  // Whether it was that state that is in place now.
  bool on_loaded(std::uint64_t step);
  // Whether it was to be loaded.
  bool on_lost(const view::CheckpointName& name);

 private:
  struct Loading {
    Checkpoint state;
    Digest result_digest;
    bool from_disk = false;
  };
  void begin(Loading loading, Duration extra);

  JobContext& job_;
  Watchdog& watchdog_;
  std::optional<Loading> loading_;
};

}  // namespace gpunode::job
