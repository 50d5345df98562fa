// Watching a job until it ends or is stopped: `train --follow`, `job follow` and `job wait`.
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

// While one is there, Ctrl-C is heard instead of ending the program.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  static bool any();

 private:
  struct sigaction before_ {};
};

struct Watch {
  std::string job;  // its id, or what a person calls it
  bool shows = true;
  std::optional<std::chrono::milliseconds> timeout = {};
};

// Exit code: kOk when the job has finished, kFailed when it has failed, kStopped when it is stopped,
// kTimedOut as the watch says, 130 after Ctrl-C, which leaves the job alone and says so.
int watch_job(const Invocation& invocation, const Watch& watch);

}  // namespace gpunode::cli
