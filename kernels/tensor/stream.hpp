// Stream: work that a device does in order. Ops are queued on one and may return before they ran;
// on the CPU a stream is the calling thread and every op has run when it returns.
#pragma once

#include "runtime/base/result.hpp"

namespace gpunode::tensor {

class Stream {
 public:
  virtual ~Stream() = default;
  // Waits until everything queued has run. Fails with: internal (a kernel failed).
  virtual Result<void> synchronise() = 0;
};

}  // namespace gpunode::tensor
