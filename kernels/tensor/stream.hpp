// Stream: work that a device does in order. Ops are queued on one and may return before they ran;
// on the CPU a stream is the calling thread and every op has run when it returns. Event: a point in a
// stream's work, for other streams and the host to wait for. Whoever waits says where in the source it
// stands, which names the wait: a device that shows what each wait is for (tests/parity/hostile) goes
// by it, others ignore it.
#pragma once

#include <source_location>

#include "runtime/base/result.hpp"

namespace gpunode::tensor {

using WaitSite = std::source_location;

class Stream {
 public:
  virtual ~Stream() = default;
  // Waits until everything queued has run. Fails with: internal (a kernel failed).
  virtual Result<void> synchronise(WaitSite site = WaitSite::current()) = 0;
};

// Does not keep its stream alive.
class Event {
 public:
  virtual ~Event() = default;
  // Waits until everything that was queued before the event has run. Fails with: as above.
  virtual Result<void> synchronise(WaitSite site = WaitSite::current()) = 0;
};

}  // namespace gpunode::tensor
