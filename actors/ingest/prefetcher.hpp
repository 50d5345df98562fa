// Slices prepared ahead by one thread, in the order in which they will be asked for, at most
// `capacity` at a time; and the time that the trainer waited for data all the same (starvation).
// A view change only replaces the plan: what is prepared and still planned is kept.
// Owner: the trainer of a job. plan and take from one thread; starvation from any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "actors/ingest/slice_reader.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::ingest {

struct Starvation {
  std::uint64_t taken = 0;   // slices handed out
  std::uint64_t waited = 0;  // of these, not ready when asked for
  Duration waiting{};        // time spent in take by those

  bool operator==(const Starvation&) const = default;
};

class Prefetcher {
 public:
  // `clock` must outlive the prefetcher; capacity > 0. Its end waits for the slice being read.
  Prefetcher(SliceReader reader, const Clock& clock, std::size_t capacity);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Replaces what is to be prepared, in this order; slices prepared but no longer in the list are
  // dropped. Never waits.
  void plan(const std::vector<SliceKey>& wanted);
  // The slice, and forgets it. Waits if it is being read; reads it here if nobody has begun or
  // memory did not suffice, so any order of asking is right and none can block for good. Throws
  // what reading it here throws.
  Slice take(SliceKey key);
  Starvation starvation() const;
  // Slices prepared and not taken yet.
  std::size_t ready() const;

 private:
  void run(const std::stop_token& stop);
  std::map<SliceKey, Slice> try_read(SliceKey key) const;

  const SliceReader reader_;
  const Clock& clock_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<SliceKey> wanted_;
  std::map<SliceKey, Slice> ready_;
  std::optional<SliceKey> reading_;
  bool drop_reading_ = false;  // the slice being read was planned away
  Starvation starvation_;
  std::jthread thread_;  // the last member: it ends before the others do
};

}  // namespace gpunode::ingest
