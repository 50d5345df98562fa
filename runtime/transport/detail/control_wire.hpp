// A session's way out on the control lane: who has something to send sends it on its own thread, as
// to wake the lane's thread for it would take longer than all the rest. So the lane's sockets are
// shared, under a lock each, and ZeroMQ's news of what came in may be swallowed by who sends; who
// finds something to read then tells the lane.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/transport/detail/control_frame.hpp"

namespace gpunode::transport::detail {

// A socket for several threads, one at a time.
class SharedSocket {
 public:
  SharedSocket() = default;
  explicit SharedSocket(Socket socket) : socket_(std::move(socket)) {}

  // To set it up, before others know of it.
  Socket& own() { return socket_; }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  Frames receive(std::size_t limit) {
    std::lock_guard lock(mutex_);
    return socket_.receive(limit);
  }
  Sent send(Frames& parts) {
    std::lock_guard lock(mutex_);
    return socket_.send(parts);
  }
  int events() const {
    std::lock_guard lock(mutex_);
    return socket_.events();
  }
  void close(Monitor& monitor) {
    std::lock_guard lock(mutex_);
    monitor.stop(socket_);
    socket_.close();
  }

  // On the lane's thread: reads the socket. Told at most once until it looks.
  std::function<void()> look;
  std::atomic<bool> look_posted{false};

 private:
  mutable std::mutex mutex_;
  Socket socket_;
};

class ControlWire {
 public:
  // `route`: of a connection to the inbox; empty: the socket has one peer.
  ControlWire(std::shared_ptr<SharedSocket> socket, Bytes route, std::uint64_t nonce, Boot boot)
      : socket_(std::move(socket)), route_(std::move(route)), nonce_(nonce), boot_(boot) {}

  std::uint64_t nonce() const { return nonce_; }
  const Bytes& route() const { return route_; }
  SharedSocket& socket() const { return *socket_; }
  Sent send(Envelope envelope, ByteView body, ByteView payload) {
    const bool counted = envelope.kind >= Kind::data && envelope.kind != Kind::reset;
    std::lock_guard lock(mutex_);  // numbers go out in their order
    envelope.session = nonce_;
    envelope.seq = counted ? seq_out_ + 1 : 0;
    envelope.boot = boot_;
    // One frame is one message: libzmq 4.3.4 aborts the process when a connection dies while a
    // socket with half of a multipart message under way is being closed (clean_pipes).
    Frames parts;
    if (!route_.empty()) parts.emplace_back(route_);
    parts.push_back(pack_frame(envelope, body, payload));
    const Sent sent = socket_->send(parts);
    if (sent == Sent::yes && counted) seq_out_ = envelope.seq;
    return sent;
  }

 private:
  const std::shared_ptr<SharedSocket> socket_;
  const Bytes route_;
  const std::uint64_t nonce_;
  const Boot boot_;
  std::mutex mutex_;
  std::uint64_t seq_out_ = 0;
};

}  // namespace gpunode::transport::detail
