// Watchdog: whether the work that a job's core has asked of its driver comes back. A trainer that
// hangs (a lost device, a data source that does not answer, a disk) answers nobody, while the core
// itself goes on answering its peers, so nothing but this would ever take the member out. Pure;
// owned by a JobCore. Time counts by ticks of at most kLongestTick, so that a process that was
// stopped as a whole is not mistaken for one whose trainer hangs.
//
//   work      | asked                 | progress          | done             | tick
//   idle      | waits                 | -                 | -                | -
//   waits     | goes on waiting       | waits from now on | idle, measured   | hangs after its time
//   hangs     | goes on               | waits from now on | idle             | -
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/clock.hpp"

namespace gpunode::job {

class Watchdog {
 public:
  enum class Work : std::uint8_t {
    compute,  // from Compute to the last partial sum, the data included
    apply,    // from Apply to on_applied
    install,  // of a state, from a peer or from this node's disk
    kCount
  };
  struct Timings {
    // Silence that is a hang: so many times what the work took lately, but no less than this.
    // Raising either spares uneven machines a view change, and costs the others as long a stall.
    int multiple = 8;
    Duration least = std::chrono::seconds(10);
    Duration first = std::chrono::seconds(60);  // least, until the work was done once
  };
  struct Hang {
    Work work = Work::compute;
    Duration lasts{};
    Duration usual{};  // zero: never done here yet
    std::string text() const;
  };

  explicit Watchdog(Timings timings) : timings_(timings) {}

  // `extra`: more than usual, as a state may be large.
  void asked(Work work, Time now, Duration extra = {});
  void progressed(Work work);
  void done(Work work, Time now);
  void dropped(Work work) { of(work).waits = false; }  // nobody waits for it any more
  // The work that has begun to hang at this tick; told once each time.
  std::optional<Hang> on_tick(Time now);
  bool hangs() const { return hang().has_value(); }
  std::optional<Hang> hang() const;  // by now

 private:
  struct Watch {
    bool waits = false;
    bool hangs = false;
    Time asked{};
    Duration silence{};
    Duration extra{};
    Duration usual{};
  };
  Watch& of(Work work) { return watches_[static_cast<std::size_t>(work)]; }
  Duration allowed(const Watch& watch) const;

  Timings timings_;
  std::array<Watch, static_cast<std::size_t>(Work::kCount)> watches_;
  std::optional<Time> ticked_;
};

// "compute", "apply" or "install".
std::string_view to_string(Watchdog::Work work);

}  // namespace gpunode::job
