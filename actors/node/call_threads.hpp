// The threads on which the embedder's own handlers run: a bounded number, started when they are
// needed, and a bounded queue before them, which is fair between callers: each has its turn, and
// none takes more than half of it, in calls and in bytes. What a handler holds is its own: one that
// does not return keeps its thread and nothing of the node. Owned by the node; any thread.
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

class CallThreads {
 public:
  struct Limits {
    std::size_t threads = 8;
    std::size_t queue = 32 * 1024;                     // that wait for a thread
    std::size_t queue_bytes = std::size_t{256} << 20;  // their requests, and 1 KiB for each
  };
  explicit CallThreads(Limits limits);
  // Throws away what waits, and waits for nothing.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Runs `task`, which holds `bytes`, in the caller's turn. Fails with resource_exhausted: too much
  // waits; unavailable: it takes no more.
  Result<void> run(const NodeId& caller, std::size_t bytes, std::function<void()> task);
  // Takes no more, and throws away what waits unless it `finishes` that too.
  void close(bool finishes);
  // After close(): whether all have ended, at the latest after `timeout`. Where a handler asks, it
  // does not wait for itself.
  bool wait(const Clock& clock, Duration timeout);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace gpunode::node
