// A device group: one device of each of several processes ("ranks"), between which spans of their
// memory are moved. It adds nothing up, so that a sum has the same bits whether its parts went
// through a group or through the host. The exchange uses one for a view whose members' devices can
// reach each other (runtime/job/PROTOCOL.md, "Carried steps"). Whoever opens it owns it and uses it
// from one thread, but for give_up().
//
//   state  | invite     | join                | move                  | give_up
//   opened | stays      | joined, or broken   | not asked             | broken
//   joined | not asked  | not asked           | stays, or broken      | broken
//   broken | fails      | fails               | fails                 | stays
// What moves the bytes may be another process: where a group breaks, its region is not given back
// before nobody can write to it any more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::ops {

// A span of the region, to or from another rank. Offsets and lengths in bytes, offsets multiples of
// 16.
struct MovedSpan {
  std::uint16_t peer = 0;
  std::size_t offset = 0, bytes = 0;
  bool operator==(const MovedSpan&) const = default;
};

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  // What the other ranks need to find rank 0, which makes it: at most 1024 bytes, no secret that
  // outlives the group. Fails with: unavailable (says why).
  virtual Result<Bytes> invite() = 0;
  // Returns once all `size` ranks are there. Fails with: unavailable (says why), timeout.
  virtual Result<void> join(ByteView invite, std::uint16_t rank, std::uint16_t size,
                            std::chrono::milliseconds timeout) = 0;
  // The device's memory that is sent from and received into, of at least so many bytes; what was
  // given before is void if it was smaller. Fails with: out_of_memory, unavailable.
  virtual Result<std::byte*> region(std::size_t bytes) = 0;
  // Moves spans of the region, of which nothing is queued on any stream any more; returns once all
  // are sent and received. Between two ranks the n-th send meets the n-th receive, of as many bytes;
  // a rank may send to itself. Fails with: unavailable, timeout; the group is broken then, and
  // what the receiving places hold is unspecified, now and later.
  virtual Result<void> move(std::span<const MovedSpan> sends, std::span<const MovedSpan> receives,
                            std::chrono::milliseconds timeout) = 0;
  // Ends it, from any thread: a call under way fails soon, every later one at once.
  virtual void give_up(const std::string& reason) = 0;
};

}  // namespace gpunode::ops
