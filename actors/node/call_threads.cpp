#include "actors/node/call_threads.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace gpunode::node {
namespace {

// What a task itself takes, with all that its closure holds besides the request.
constexpr std::size_t kTaskBytes = 1024;

}  // namespace

// Held by each of the threads too: one whose handler hangs outlives the pool.
struct CallThreads::Shared : std::enable_shared_from_this<CallThreads::Shared> {
  struct Task {
    std::size_t bytes = 0;
    std::function<void()> work;
  };
  struct Line {  // of one caller
    std::deque<Task> tasks;
    std::size_t bytes = 0;
  };

  explicit Shared(Limits of) : limits(of) {}

  Result<void> add(const NodeId& caller, Task task) {
    std::lock_guard lock(mutex);
    if (closed) return {ErrorCode::unavailable, "this node is stopping"};
    task.bytes += kTaskBytes;
    Line& own = waiting[caller];
    const std::size_t share = std::max<std::size_t>(1, limits.queue / 2);
    if (waiting_count >= limits.queue || own.tasks.size() >= share ||
        waiting_bytes + task.bytes > limits.queue_bytes ||
        (own.bytes > 0 && own.bytes + task.bytes > limits.queue_bytes / 2)) {
      if (own.tasks.empty()) waiting.erase(caller);
      return {ErrorCode::resource_exhausted,
              "too many calls wait for a handler of this node: ask again later, or another node"};
    }
    if (idle == 0 && threads < limits.threads && !start_thread() && threads == 0) {
      if (own.tasks.empty()) waiting.erase(caller);
      return {ErrorCode::resource_exhausted,
              "this node can start no thread for a handler: ask again later, or another node"};
    }
    ++waiting_count;
    waiting_bytes += task.bytes;
    own.bytes += task.bytes;
    own.tasks.push_back(std::move(task));
    if (idle > 0) work_changed.notify_one();
    return {};
  }

  // It waits for the lock, and then finds what is added meanwhile. False: those that there are serve it.
  bool start_thread() {
    try {
      std::thread([self = shared_from_this()] { self->serve(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++threads;
    return true;
  }

  // The first of the caller whose turn it is.
  Task take() {
    auto next = waiting.upper_bound(last_served);
    if (next == waiting.end()) next = waiting.begin();
    last_served = next->first;
    Line& own = next->second;
    Task task = std::move(own.tasks.front());
    own.tasks.pop_front();
    own.bytes -= task.bytes;
    --waiting_count;
    waiting_bytes -= task.bytes;
    if (own.tasks.empty()) waiting.erase(next);
    return task;
  }

  void serve() {
    serves = this;
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle;
      work_changed.wait(lock, [this] { return waiting_count > 0 || closed; });
      --idle;
      if (waiting_count == 0) break;
      ++running;
      Task task = take();
      lock.unlock();
      task.work();
      task = {};  // what it holds goes before it counts as ended
      lock.lock();
      --running;
      if (closed) ended.notify_all();
    }
  }

  bool over() const { return waiting_count == 0 && running == (serves == this ? 1u : 0u); }

  static thread_local const Shared* serves;

  const Limits limits;
  std::mutex mutex;
  std::condition_variable work_changed, ended;
  std::map<NodeId, Line> waiting;
  NodeId last_served{};
  std::size_t waiting_count = 0, waiting_bytes = 0;
  std::size_t threads = 0, idle = 0, running = 0;
  bool closed = false;
};

thread_local const CallThreads::Shared* CallThreads::Shared::serves = nullptr;

CallThreads::CallThreads(Limits limits) : shared_(std::make_shared<Shared>(limits)) {}

CallThreads::~CallThreads() {
  close(false);
}

Result<void> CallThreads::run(const NodeId& caller, std::size_t bytes, std::function<void()> task) {
  return shared_->add(caller, {bytes, std::move(task)});
}

void CallThreads::close(bool finishes) {
  std::map<NodeId, Shared::Line> lost;  // ends outside of the lock: it may answer
  std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  if (!finishes) {
    std::swap(lost, shared_->waiting);
    shared_->waiting_count = shared_->waiting_bytes = 0;
  }
  shared_->work_changed.notify_all();
}

bool CallThreads::wait(const Clock& clock, Duration timeout) {
  const Time deadline = clock.now() + timeout;
  std::unique_lock lock(shared_->mutex);
  while (!shared_->over() && clock.now() < deadline)
    shared_->ended.wait_for(lock, std::chrono::milliseconds(5));
  return shared_->over();
}

}  // namespace gpunode::node
