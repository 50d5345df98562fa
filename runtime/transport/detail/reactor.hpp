// One thread that waits for file descriptors, timers and posted tasks (epoll and an eventfd). Owns
// every socket that is registered with it; all callbacks run on its thread. A ZeroMQ socket is
// registered by its ZMQ_FD, whose readiness only says "look at events()".
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.hpp"

namespace gpunode::transport::detail {

class Reactor {
 public:
  using Task = std::function<void()>;

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Before start(): after work the thread looks for more for up to that long before it sleeps, less
  // where that has been in vain. For a lane whose messages come in quick succession.
  void spin_up_to(Duration most) { spin_most_ = spin_ = most; }
  void start();
  // Runs `last` on the thread as its final task, then joins. Once; not from the thread itself.
  void stop(Task last);

  bool on_its_thread() const { return std::this_thread::get_id() == self_.load(); }

  // Any thread. Tasks run in the order of posting; after stop() they are thrown away.
  void post(Task task);

  // What a task waits for. Edges: for bytes to read and room to write, and is told only when there
  // is more of either than at the time before.
  enum class Wanted { reading, writing, edges };
  // On the thread, or before start().
  std::uint64_t watch(int fd, Wanted wanted, Task task);
  void unwatch(std::uint64_t id);
  void after(Duration delay, Task task);
  Time now() const { return clock_.now(); }

 private:
  void run();
  void run_posted();
  bool anything_posted();
  int wait(epoll_event* ready, int most);
  void run_timers();
  int timeout_ms() const;

  SystemClock clock_;
  Duration spin_most_{};
  Duration spin_{};
  Time no_spin_until_{};
  int epoll_ = -1;
  int wake_ = -1;
  std::thread thread_;
  std::atomic<std::thread::id> self_{};  // of the running thread
  std::mutex mutex_;
  std::vector<Task> posted_;
  bool awake_ = false;  // the eventfd is already written
  bool stopped_ = false;
  std::atomic<bool> running_{false};
  std::uint64_t next_id_ = 1;
  struct Watch {
    int fd;
    std::shared_ptr<Task> task;
  };
  std::unordered_map<std::uint64_t, Watch> watches_;
  std::multimap<Time, Task> timers_;
};

}  // namespace gpunode::transport::detail
