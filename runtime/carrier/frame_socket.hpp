// Frames over one end of a pair of stream sockets: a kind, a length, a body. Between a node and its
// carrier process only, both of one machine, so numbers are as the machine has them.
// One thread sends and receives; close_both_ways() from any.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/bytes.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::carrier {

struct Frame {
  std::uint32_t kind = 0;
  Bytes body;  // at most kMaxBodyBytes
};
inline constexpr std::uint32_t kMaxBodyBytes = std::uint32_t{16} << 20;

// The system's own clock, as a wait in the kernel cannot be told the time.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

class FrameSocket {
 public:
  explicit FrameSocket(Descriptor socket) : socket_(std::move(socket)) {}
  // Fails with: timeout, unavailable (the other end is gone), invalid_argument (too long). After a
  // failure nothing can be sent any more.
  Result<void> send(const Frame& frame, Deadline deadline);
  // Fails with: timeout, unavailable (the other end is gone), corrupted (no frame is so long).
  Result<Frame> receive(Deadline deadline);
  // Who waits on either end is woken, and finds the other one gone.
  void close_both_ways();

 private:
  Result<void> wait_for(short event, Deadline deadline) const;
  Result<void> send_all(ByteView bytes, Deadline deadline);
  Result<void> receive_all(MutableByteView bytes, Deadline deadline);

  Descriptor socket_;
};

}  // namespace gpunode::carrier
