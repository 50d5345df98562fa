// Work that is too slow for a mailbox, as reading all data of a job is, on a bounded number of threads:
// whatever nodes ask, so many of its models are in memory at once. Who asks has its turn, a bounded
// part of the threads, and a bounded part of the room before them, so that none keeps the others out;
// this node itself may have all of both. Owned by the job board; any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::jobs {

class SlowWork {
 public:
  struct Limits {
    std::size_t threads = 4, threads_each = 2;
    std::size_t waiting = 64, waiting_each = 16;
  };
  using Work = std::function<void()>;

  SlowWork(const NodeId& self, Limits limits) : self_(self), limits_(limits) {}

  // True: the caller starts a thread that calls serve(). Fails with resource_exhausted: too much
  // waits; unavailable: it takes no more.
  Result<bool> add(const NodeId& by, Work work);
  // Does what waits, one after the other, until nothing is left that may be done now.
  void serve();
  // Takes no more, and throws away what waits.
  void close();

 private:
  struct Asker {
    std::deque<Work> waiting;
    std::size_t running = 0;
  };
  using Askers = std::map<NodeId, Asker>;
  bool is_due(const Askers::value_type& one) const {
    return !one.second.waiting.empty() &&
           (one.first == self_ || one.second.running < limits_.threads_each);
  }
  Askers::iterator next_due();

  const NodeId self_;
  const Limits limits_;
  std::mutex mutex_;
  Askers askers_;  // of which something waits or runs
  NodeId last_served_{};
  std::size_t waiting_ = 0, threads_ = 0;
  bool closed_ = false;
};

}  // namespace gpunode::jobs
