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
  // The library's own handle (cudaStream_t); null on the CPU.
  virtual void* native() const { return nullptr; }
};

}  // namespace gpunode::tensor
