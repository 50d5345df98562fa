// Watching a job until it ends: `train --follow`, `job follow` and `job wait`.
#pragma once

#include <optional>
#include <string>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

struct Watch {
  std::string job;  // its id, or what a person calls it
  bool shows = true;
  bool ends_when_stopped = false;
  std::optional<std::chrono::milliseconds> timeout = {};
};

// Exit code: kOk when the job has finished, kFailed when it has failed, kStopped and kTimedOut as the
// watch says, 130 after Ctrl-C, which leaves the job alone and says so.
int watch_job(const Invocation& invocation, const Watch& watch);

}  // namespace gpunode::cli
