// Gradient-sized vectors that are used again and again: fresh ones cost a page fault a 4 KiB, which
// is as much as summing them. A vector comes back when its last holder lets go of it, on whatever
// thread; the pool lives as long as one is out. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace gpunode::collective {

class FloatPool : public std::enable_shared_from_this<FloatPool> {
 public:
  static std::shared_ptr<FloatPool> create(std::size_t element_count) {
    return std::shared_ptr<FloatPool>(new FloatPool(element_count));
  }

  // element_count floats of any value.
  std::shared_ptr<std::vector<float>> take() {
    std::unique_ptr<std::vector<float>> vector;
    {
      std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        vector = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (!vector) vector = std::make_unique<std::vector<float>>(element_count_);
    auto* raw = vector.release();
    return {raw, [pool = shared_from_this()](std::vector<float>* used) {
              std::lock_guard lock(pool->mutex_);
              std::unique_ptr<std::vector<float>> back(used);
              if (pool->spare_.size() < kMostSpare) pool->spare_.push_back(std::move(back));
            }};
  }

 private:
  explicit FloatPool(std::size_t element_count) : element_count_(element_count) {}

  // More are out at once only while results are kept for a learner.
  static constexpr std::size_t kMostSpare = 4;
  const std::size_t element_count_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::vector<float>>> spare_;
};

}  // namespace gpunode::collective
