#include "actors/ingest/prefetcher.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace gpunode::ingest {

Prefetcher::Prefetcher(SliceReader reader, const Clock& clock, std::size_t capacity)
    : reader_(std::move(reader)), clock_(clock), capacity_(capacity) {
  GPUNODE_CHECK(capacity > 0, "a prefetcher without room for a slice");
  thread_ = std::thread([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::plan(const std::vector<SliceKey>& wanted) {
  {
    std::lock_guard lock(mutex_);
    std::map<SliceKey, Slice> kept;
    wanted_.clear();
    drop_reading_ = reading_.has_value();
    for (const SliceKey& key : wanted) {
      if (auto found = ready_.find(key); found != ready_.end())
        kept.insert(ready_.extract(found));
      else if (reading_ == key)
        drop_reading_ = false;
      else if (!kept.contains(key))
        wanted_.push_back(key);
    }
    ready_ = std::move(kept);
  }
  changed_.notify_all();
}

Slice Prefetcher::take(SliceKey key) {
  std::unique_lock lock(mutex_);
  ++starvation_.taken;
  if (!ready_.contains(key)) {
    ++starvation_.waited;
    Time begin = clock_.now();
    if (reading_ == key && !drop_reading_) {
      changed_.wait(lock, [&] { return ready_.contains(key); });
      starvation_.waiting += clock_.now() - begin;
    } else {
      std::erase(wanted_, key);
      lock.unlock();
      Slice slice = reader_.read(key);
      lock.lock();
      starvation_.waiting += clock_.now() - begin;
      return slice;
    }
  }
  Slice slice = std::move(ready_.extract(key).mapped());
  lock.unlock();
  changed_.notify_all();
  return slice;
}

Starvation Prefetcher::starvation() const {
  std::lock_guard lock(mutex_);
  return starvation_;
}

std::size_t Prefetcher::ready() const {
  std::lock_guard lock(mutex_);
  return ready_.size();
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [&] { return stopping_ || (!wanted_.empty() && ready_.size() < capacity_); });
    if (stopping_) return;
    reading_ = wanted_.front();
    drop_reading_ = false;
    wanted_.pop_front();
    lock.unlock();
    Slice slice = reader_.read(*reading_);
    lock.lock();
    if (!drop_reading_) ready_.insert_or_assign(slice.key, std::move(slice));
    reading_.reset();
    changed_.notify_all();
  }
}

}  // namespace gpunode::ingest
