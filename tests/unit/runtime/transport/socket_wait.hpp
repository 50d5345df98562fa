// Waits for what comes to a bare socket in a test.
#pragma once

#include <poll.h>

#include "runtime/transport/detail/zmq_socket.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {

// Empty after the hang limit.
inline detail::Frames wait_for(detail::Socket& socket) {
  auto deadline = std::chrono::steady_clock::now() + kHangLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    detail::Frames parts = socket.receive(4);
    if (!parts.empty()) return parts;
    pollfd waiting{socket.fd(), POLLIN, 0};
    ::poll(&waiting, 1, 20);
  }
  return {};
}

}  // namespace gpunode::transport::test
