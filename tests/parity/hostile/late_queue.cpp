#include "tests/parity/hostile/late_queue.hpp"

#include <algorithm>
#include <chrono>

namespace gpunode::hostile {

LateQueue::LateQueue(Pace pace, std::uint64_t seed) : pace_(pace), rng_(seed) {
  thread_ = std::thread([this] { run(); });
}

LateQueue::~LateQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  may_run_.notify_all();
  thread_.join();
}

std::uint64_t LateQueue::push(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  may_run_.notify_one();
  return ++pushed_;
}

void LateQueue::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  wanted_ = std::max(wanted_, number);
  may_run_.notify_one();
  has_run_.wait(lock, [&] { return run_ >= number; });
}

std::uint64_t LateQueue::pushed() {
  std::lock_guard lock(mutex_);
  return pushed_;
}

void LateQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    may_run_.wait(lock, [&] {
      return closing_ || (run_ < pushed_ && (pace_ == Pace::random || run_ < wanted_));
    });
    if (run_ == pushed_) return;
    if (pace_ == Pace::random && rng_.chance(0.25)) {
      const std::chrono::microseconds delay(rng_.below(200));
      may_run_.wait_for(lock, delay, [&] { return closing_; });
    }
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++run_;
    has_run_.notify_all();
  }
}

}  // namespace gpunode::hostile
