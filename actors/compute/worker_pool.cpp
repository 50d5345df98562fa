#include "actors/compute/worker_pool.hpp"

#include <utility>

namespace gpunode::compute {

WorkerPool::WorkerPool(int workers) {
  for (int worker = 1; worker < workers; ++worker)
    threads_.emplace_back([this, worker](const std::stop_token& stop) { work(stop, worker); });
}

void WorkerPool::run(std::size_t count, const std::function<void(int, std::size_t)>& task) {
  {
    std::lock_guard lock(mutex_);
    task_ = &task;
    next_ = 0;
    count_ = count;
    running_ = threads_.size();
    ++round_;
  }
  wake_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  task_ = nullptr;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void WorkerPool::drain(int worker) {
  for (;;) {
    std::size_t i;
    {
      std::lock_guard lock(mutex_);
      if (next_ >= count_ || thrown_) return;
      i = next_++;
    }
    try {
      (*task_)(worker, i);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!thrown_) thrown_ = std::current_exception();
      return;
    }
  }
}

void WorkerPool::work(const std::stop_token& stop, int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return round_ != seen; })) return;
      seen = round_;
    }
    drain(worker);
    std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace gpunode::compute
