#include "actors/ingest/prefetcher.hpp"

#include <algorithm>
#include <exception>
#include <set>

#include "runtime/base/check.hpp"

namespace gpunode::ingest {

Prefetcher::Prefetcher(SliceReader reader, const Clock& clock, std::size_t capacity)
    : reader_(std::move(reader)), clock_(clock), capacity_(capacity) {
  GPUNODE_CHECK(capacity > 0, "a prefetcher without room for a slice");
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Prefetcher::plan(const std::vector<SliceKey>& wanted) {
  {
    std::lock_guard lock(mutex_);
    std::map<SliceKey, Slice> kept;
    std::set<SliceKey> seen;
    wanted_.clear();
    drop_reading_ = reading_.has_value();
    for (const SliceKey& key : wanted) {
      if (!seen.insert(key).second) continue;
      if (auto found = ready_.find(key); found != ready_.end())
        kept.insert(ready_.extract(found));
      else if (reading_ == key)
        drop_reading_ = false;
      else
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
    if (!drop_reading_) changed_.wait(lock, [&] { return reading_ != key; });
    if (!ready_.contains(key)) {
      std::erase(wanted_, key);
      lock.unlock();
      Slice slice = reader_.read(key);
      lock.lock();
      starvation_.waiting += clock_.now() - begin;
      return slice;
    }
    starvation_.waiting += clock_.now() - begin;
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

// Nothing where memory is short: whoever takes the slice reads it and meets the cause.
std::map<SliceKey, Slice> Prefetcher::try_read(SliceKey key) const {
  std::map<SliceKey, Slice> read;
  try {
    read.emplace(key, reader_.read(key));
  } catch (const std::exception&) {
    read.clear();
  }
  return read;
}

void Prefetcher::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_work = [&] { return !wanted_.empty() && ready_.size() < capacity_; };
  while (changed_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    reading_ = wanted_.front();
    drop_reading_ = false;
    wanted_.pop_front();
    const SliceKey key = *reading_;
    lock.unlock();
    std::map<SliceKey, Slice> read = try_read(key);
    lock.lock();
    if (!drop_reading_) ready_.merge(read);
    reading_.reset();
    changed_.notify_all();
  }
}

}  // namespace gpunode::ingest
