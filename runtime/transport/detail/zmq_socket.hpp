// The thin owner of ZeroMQ's C objects: contexts, sockets, frames, monitors. Nothing here throws or
// blocks; every call belongs to the thread that owns the socket. The context lives as long as the
// process: to end one that is in use can crash in libzmq 4.3.4.
#pragma once

#include <zmq.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::transport::detail {

void* control_context();

class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  explicit Frame(std::size_t size) { zmq_msg_init_size(&message_, size); }
  explicit Frame(ByteView bytes) : Frame(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  ~Frame() { zmq_msg_close(&message_); }
  Frame(Frame&& other) noexcept {
    zmq_msg_init(&message_);
    zmq_msg_move(&message_, &other.message_);
  }
  Frame& operator=(Frame&& other) noexcept {
    if (this != &other) zmq_msg_move(&message_, &other.message_);
    return *this;
  }

  std::byte* data() { return static_cast<std::byte*>(zmq_msg_data(&message_)); }
  std::size_t size() const { return zmq_msg_size(&message_); }
  ByteView view() const {
    return {static_cast<const std::byte*>(zmq_msg_data(const_cast<zmq_msg_t*>(&message_))), size()};
  }
  zmq_msg_t* raw() { return &message_; }
  // A property of the connection that the frame came by: "User-Id", "Peer-Address".
  std::string property(const char* name) const;
  int source_fd();  // of the TCP connection; -1: unknown

 private:
  zmq_msg_t message_;
};

using Frames = std::vector<Frame>;

enum class Sent : std::uint8_t { yes, would_block, unroutable };

class Socket {
 public:
  Socket() = default;
  Socket(void* context, int type);
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Socket& operator=(Socket&& other) noexcept;

  explicit operator bool() const { return handle_ != nullptr; }
  void* raw() const { return handle_; }
  // False when this libzmq does not know the option.
  bool set(int option, int value);
  bool set_wide(int option, std::int64_t value);
  bool set_bytes(int option, ByteView value);

  // Binds and returns the endpoint with its true port. "tcp://host:0" takes a free port. Fails with
  // already_exists (in use), permission_denied, invalid_argument.
  Result<std::string> bind(const std::string& endpoint);
  bool connect(const std::string& endpoint);
  int fd() const;      // becomes readable when events() may have changed
  int events() const;  // ZMQ_POLLIN, ZMQ_POLLOUT
  // The next whole message, without waiting; empty: none. Parts beyond `limit` are thrown away.
  Frames receive(std::size_t limit);
  // Sends all parts or none, without waiting.
  Sent send(Frames& parts);
  void close();

 private:
  void* handle_ = nullptr;
};

struct MonitorEvent {
  int event = 0;
  int value = 0;  // file descriptor, errno, or status code
};

// Hears what becomes of a socket's connections.
class Monitor {
 public:
  Monitor() = default;
  Monitor(void* context, const Socket& watched);
  Monitor(Monitor&&) noexcept = default;
  Monitor& operator=(Monitor&&) noexcept = default;
  std::optional<MonitorEvent> next();
  int fd() const { return socket_.fd(); }
  int events() const { return socket_.events(); }
  // Before the watched socket is closed.
  void stop(const Socket& watched);

 private:
  Socket socket_;
};

// Keepalive 10 s / 5 s / 3 times, TCP_MAXRT 15 s, linger 0, handshake 5 s: all sockets over TCP.
void set_tcp_options(Socket& socket);
// The longest frame it takes, and how many may wait. Without the first a stranger's frame takes
// what memory it likes before any key is checked.
void set_frame_limits(Socket& socket, std::int64_t most_bytes);

// A ROUTER names its connections itself from here on, whatever routing id a peer sends; after the
// last bind(). Left alone, libzmq takes the peer's word for the name of its connection, gives a
// number to who sends none, and aborts the process where it meets that number as the id that
// another has sent: any peer with a key could end a node. In raw mode the socket gives a number to
// all, and none comes twice before 2^32 connections; listeners keep the mode that they were bound
// in, and so speak ZMTP and CURVE as before. An empty frame would close its connection: none may be
// sent. False: this libzmq cannot do it.
bool ignore_routing_ids(Socket& router);

}  // namespace gpunode::transport::detail
