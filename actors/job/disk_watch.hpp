// Whether the disk of a job's checkpoints still answers. The checkpoint writer carries out one
// order at a time, in the order in which they were given; the first of those that are left is late
// once it takes longer than a minute and than ten times what such orders usually take. Pure: it is
// told the time. Owned by the job actor, which says so to people, and takes this node out of the
// view where the members wait for its state.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "runtime/base/clock.hpp"

namespace gpunode::jobs {

enum class DiskWork : std::uint8_t { search, write, read };
std::string_view to_string(DiskWork work);  // "looked for", "written", "read"

struct DiskOrder {
  DiskWork work = DiskWork::write;
  std::uint64_t step = 0;  // of the checkpoint; 0 for a search
  bool restores = false;   // the members wait for this state
};

struct LateOrder {
  DiskOrder order;
  Duration lasts{};
  Duration usual{};  // zero: none has been measured
};

class DiskWatch {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(60);
  static constexpr int kTimesUsual = 10;

  void add(Time now, DiskOrder order) { add_at(now, order, orders_.end()); }
  // One that the writer began by itself, before those that wait.
  void add_first(Time now, DiskOrder order);
  // The first one is answered.
  void done(Time now);
  // The same, if it is of this kind.
  void done(Time now, DiskWork work) {
    if (!orders_.empty() && orders_.front().work == work) done(now);
  }
  // The writer is gone.
  void clear() { orders_.clear(); }

  // The longest that an order may take: as of what was measured so far.
  Duration timeout() const;
  std::optional<LateOrder> late(Time now) const;
  // Whether a state is among them that the members wait for.
  bool restores() const;

 private:
  void add_at(Time now, DiskOrder order, std::deque<DiskOrder>::iterator at);

  std::deque<DiskOrder> orders_;
  Time since_{};  // of the first
  Duration usual_[3]{};
};

}  // namespace gpunode::jobs
