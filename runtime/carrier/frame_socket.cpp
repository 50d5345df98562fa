#include "runtime/carrier/frame_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace gpunode::carrier {
namespace {

struct Head {
  std::uint32_t kind = 0, body_bytes = 0;
};

// For poll(): rounded up, so that it does not come back a little early; -1: for ever.
int milliseconds_until(Deadline deadline) {
  if (deadline == kNever) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

Error gone() {
  return {ErrorCode::unavailable, "the other end is closed"};
}

}  // namespace

Result<void> FrameSocket::wait_for(short event, Deadline deadline) const {
  for (;;) {
    pollfd end{socket_.get(), event, 0};
    const int ready = poll(&end, 1, milliseconds_until(deadline));
    if (ready > 0) return {};
    if (ready == 0) return {ErrorCode::timeout, "no answer in time"};
    if (errno != EINTR) return gone();
  }
}

Result<void> FrameSocket::send_all(ByteView bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (auto ready = wait_for(POLLOUT, deadline); !ready) return ready;
    } else if (sent >= 0 || errno != EINTR) {
      return gone();
    }
  }
  return {};
}

Result<void> FrameSocket::receive_all(MutableByteView bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (auto ready = wait_for(POLLIN, deadline); !ready) return ready;
    } else if (got >= 0 || errno != EINTR) {
      return gone();
    }
  }
  return {};
}

Result<void> FrameSocket::send(const Frame& frame, Deadline deadline) {
  if (frame.body.size() > kMaxBodyBytes)
    return {ErrorCode::invalid_argument, std::to_string(frame.body.size()) + " bytes in one frame"};
  const Head head{frame.kind, static_cast<std::uint32_t>(frame.body.size())};
  if (auto sent = send_all(std::as_bytes(std::span(&head, 1)), deadline); !sent) return sent;
  return send_all(frame.body, deadline);
}

Result<Frame> FrameSocket::receive(Deadline deadline) {
  Head head;
  auto got = receive_all(std::as_writable_bytes(std::span(&head, 1)), deadline);
  if (!got) return got.error();
  if (head.body_bytes > kMaxBodyBytes)
    return Error{ErrorCode::corrupted, "a frame of " + std::to_string(head.body_bytes) + " bytes"};
  Frame frame{head.kind, Bytes(head.body_bytes)};
  got = receive_all(frame.body, deadline);
  if (!got) return got.error();
  return frame;
}

void FrameSocket::close_both_ways() {
  shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace gpunode::carrier
