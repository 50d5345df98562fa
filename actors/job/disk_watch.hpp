// Whether the disk of a job's checkpoints still answers. The checkpoint writer carries out one
// task at a time, in the order in which they were given; the first of those that are left is late
// once it takes longer than a minute and than ten times what such tasks usually take. Pure: it is
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
constexpr std::string_view to_string(DiskWork work) {
  constexpr std::string_view kTexts[] = {"looked for", "written", "read"};
  return kTexts[static_cast<std::size_t>(work)];
}

struct DiskTask {
  DiskWork work = DiskWork::write;
  std::uint64_t step = 0;  // of the checkpoint; 0 for a search
  bool restores = false;   // the members wait for this state
};

struct LateTask {
  DiskTask task;
  Duration lasts{};
  Duration usual{};  // zero: none has been measured
};

class DiskWatch {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(60);
  static constexpr int kTimesUsual = 10;

  void add(Time now, DiskTask task) { add_at(now, task, tasks_.end()); }
  // One that the writer began by itself, before those that wait.
  void add_first(Time now, DiskTask task) { add_at(now, task, tasks_.begin()); }
  // The first one is answered.
  void done(Time now);
  // The same, if it is of this kind.
  void done(Time now, DiskWork work) {
    if (!tasks_.empty() && tasks_.front().work == work) done(now);
  }
  // The writer is gone.
  void clear() { tasks_.clear(); }

  // The longest that a task may take: as of what was measured so far.
  Duration timeout() const;
  std::optional<LateTask> late(Time now) const;
  // Whether a state is among them that the members wait for.
  bool restores() const;

 private:
  void add_at(Time now, DiskTask task, std::deque<DiskTask>::iterator at);

  std::deque<DiskTask> tasks_;
  Time since_{};  // of the first
  Duration usual_[3]{};
};

}  // namespace gpunode::jobs
