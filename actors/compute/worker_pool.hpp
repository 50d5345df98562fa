// The threads on which slices are computed: `workers` of them, the caller being worker 0. Tasks are
// whole slices or whole blocks, so which thread takes which never shows in a result.
// Owner: the trainer. Cost: one wake-up a thread and call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gpunode::compute {

class WorkerPool {
 public:
  explicit WorkerPool(int workers);  // at least 1
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int workers() const { return static_cast<int>(threads_.size()) + 1; }
  // Runs task(worker, i) for i in [0, count), each once, and returns when all are done. One caller.
  // The first exception of a task, on whichever worker, is thrown on here, after no task runs any
  // more; those that had not begun never do. So a task must not wait for one that may have thrown.
  void run(std::size_t count, const std::function<void(int worker, std::size_t i)>& task);

 private:
  void work(const std::stop_token& stop, int worker);
  void drain(int worker);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable done_;
  const std::function<void(int, std::size_t)>* task_ = nullptr;
  std::size_t next_ = 0, count_ = 0;
  std::size_t running_ = 0;  // threads still in this round
  std::uint64_t round_ = 0;
  std::exception_ptr thrown_;          // by a task of this round, the first
  std::vector<std::jthread> threads_;  // the last member: they end before the others do
};

}  // namespace gpunode::compute
