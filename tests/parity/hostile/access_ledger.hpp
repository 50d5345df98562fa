// Who has read and written which bytes, and what is known to have happened before what. Each stream has
// a vector clock, and so have events and the host; all threads of the host count as one.
//   queueing on a stream       the stream knows what the host knows
//   synchronise                the host knows what the stream knows
//   record, wait for an event  the event knows what its stream knows; the waiting stream, that too
// Two accesses to a byte, at least one a write, that nobody knows an order of, are a fault, whether or
// not they met this time. What the host knows is ordered for all that comes after, and forgotten.
// Not thread-safe. Costs a walk over what other streams have queued and nobody has waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/access.hpp"

namespace gpunode::hostile {

using Clock = std::vector<std::uint64_t>;  // by stream: how many of its calls are known to have run

class AccessLedger {
 public:
  std::size_t open_stream();
  void close_stream(std::size_t stream);

  struct Conflict {
    std::string earlier;            // the call
    ops::Access earlier_access;     // what of it
    ops::Access access;             // and what it meets
    std::string_view kind() const;  // "read after write"
  };
  // A call is queued. Nothing is kept of one that is in conflict.
  std::optional<Conflict> enter(std::size_t stream, const std::string& call,
                                std::span<const ops::Access> accesses);
  // The host itself reads, writes or releases bytes, now.
  std::optional<Conflict> enter_host(const ops::Access& access) const;

  const Clock& clock_of(std::size_t stream) const { return clocks_[stream]; }
  void stream_learns(std::size_t stream, const Clock& clock) { join(clocks_[stream], clock); }
  void host_learns(Clock clock);

 private:
  struct Entry {
    std::uint64_t time = 0;  // of its stream
    ops::Access access;
    std::shared_ptr<const std::string> call;
  };
  static void join(Clock& clock, const Clock& other);
  static std::uint64_t at(const Clock& clock, std::size_t stream) {
    return stream < clock.size() ? clock[stream] : 0;
  }
  std::optional<Conflict> meet(std::size_t stream, const Clock& known,
                               const ops::Access& access) const;

  std::vector<Clock> clocks_;
  std::vector<std::vector<Entry>> entries_;  // by stream, in its order
  std::vector<std::size_t> closed_;          // streams whose number may be used again
  Clock host_;
};

}  // namespace gpunode::hostile
