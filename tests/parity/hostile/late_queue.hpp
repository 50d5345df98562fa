// Work that runs later: a queue with a thread of its own that takes one piece after the other, in
// order, each after a delay from a seed; or none before somebody waits for it, which is as late as a
// device can be. Any thread may push and wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/base/rng.hpp"

namespace gpunode::hostile {

enum class Pace {
  random,           // each after up to a fifth of a millisecond, some at once
  when_waited_for,  // not before somebody waits: what a host reads too early is never there yet
};

class LateQueue {
 public:
  LateQueue(Pace pace, std::uint64_t seed);
  ~LateQueue();  // runs what is left

  // Number of the piece, from 1 on.
  std::uint64_t push(std::function<void()> work);
  void wait_for(std::uint64_t number);
  void wait_for_all() { wait_for(pushed()); }
  std::uint64_t pushed();  // number of the last piece

 private:
  void run();

  const Pace pace_;
  Rng rng_;
  std::mutex mutex_;
  std::condition_variable may_run_, has_run_;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t pushed_ = 0, run_ = 0, wanted_ = 0;  // numbers of pieces
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace gpunode::hostile
