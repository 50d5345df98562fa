// A value that one thread replaces whole and any thread reads: allow-lists, views of the cluster.
// Exists instead of std::atomic<std::shared_ptr>, whose load in libstdc++ 12 unlocks with a relaxed
// store, which is a race by the letter and by the thread sanitizer. Costs one uncontended lock and
// one reference count a read; what was read stays as it was.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace gpunode {

template <class Value>
class Published {
 public:
  Published() : value_(std::make_shared<const Value>()) {}

  // The latest value. Any thread; never null.
  std::shared_ptr<const Value> read() const {
    std::lock_guard lock(mutex_);
    return value_;
  }

  // Replaces the value for those who read from now on. Any thread.
  void write(Value value) {
    auto next = std::make_shared<const Value>(std::move(value));
    std::lock_guard lock(mutex_);
    value_.swap(next);  // the old value, if this was its last owner, is freed after the unlock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Value> value_;
};

}  // namespace gpunode
