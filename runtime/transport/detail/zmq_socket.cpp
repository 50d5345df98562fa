#include "runtime/transport/detail/zmq_socket.hpp"

#include <atomic>
#include <cerrno>

#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

namespace {

void* make_context() {
  void* context = zmq_ctx_new();
  // Ours: it is made once a link, before the first peer.
  GPUNODE_CHECK(context != nullptr, "zmq_ctx_new");
  zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 16'384);
  return context;
}

}  // namespace

void* control_context() {
  static void* context = make_context();
  return context;
}

std::string Frame::property(const char* name) const {
  const char* text = zmq_msg_gets(const_cast<zmq_msg_t*>(&message_), name);
  return text ? text : "";
}

int Frame::source_fd() {
  return zmq_msg_get(&message_, ZMQ_SRCFD);
}

Socket::Socket(void* context, int type) : handle_(zmq_socket(context, type)) {
  if (handle_) set(ZMQ_LINGER, 0);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void Socket::close() {
  if (handle_) zmq_close(std::exchange(handle_, nullptr));
}

bool Socket::set(int option, int value) {
  return zmq_setsockopt(handle_, option, &value, sizeof value) == 0;
}

bool Socket::set_wide(int option, std::int64_t value) {
  return zmq_setsockopt(handle_, option, &value, sizeof value) == 0;
}

bool Socket::set_bytes(int option, ByteView value) {
  return zmq_setsockopt(handle_, option, value.data(), value.size()) == 0;
}

Result<std::string> Socket::bind(const std::string& endpoint) {
  std::string spelled = endpoint;
  if (spelled.starts_with("tcp://") && spelled.ends_with(":0")) {
    spelled.replace(spelled.size() - 1, 1, "*");
  }
  if (endpoint.find('[') != std::string::npos) set(ZMQ_IPV6, 1);
  if (zmq_bind(handle_, spelled.c_str()) != 0) {
    int cause = errno;
    return bind_error(endpoint, cause, zmq_strerror(cause));
  }
  char bound[256] = {};
  std::size_t size = sizeof bound;
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, bound, &size) != 0) return endpoint;
  return std::string(bound);
}

bool Socket::connect(const std::string& endpoint) {
  if (endpoint.find('[') != std::string::npos) set(ZMQ_IPV6, 1);
  return zmq_connect(handle_, endpoint.c_str()) == 0;
}

int Socket::fd() const {
  int fd = -1;
  std::size_t size = sizeof fd;
  zmq_getsockopt(handle_, ZMQ_FD, &fd, &size);
  return fd;
}

int Socket::events() const {
  int events = 0;
  std::size_t size = sizeof events;
  if (zmq_getsockopt(handle_, ZMQ_EVENTS, &events, &size) != 0) return 0;
  return events;
}

Frames Socket::receive(std::size_t limit) {
  Frames parts;
  for (;;) {
    Frame part;
    int got;
    do {
      got = zmq_msg_recv(part.raw(), handle_, ZMQ_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return {};
    bool more = zmq_msg_more(part.raw()) != 0;
    if (parts.size() < limit) parts.push_back(std::move(part));
    if (!more) return parts;
  }
}

Sent Socket::send(Frames& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    int flags = ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
    int sent;
    do {
      sent = zmq_msg_send(parts[i].raw(), handle_, flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
      if (i == 0 && errno == EAGAIN) return Sent::would_block;
      return Sent::unroutable;
    }
  }
  return Sent::yes;
}

Monitor::Monitor(void* context, const Socket& watched) {
  static std::atomic<std::uint64_t> next{0};
  std::string name = "inproc://gpunode-monitor-" + std::to_string(next++);
  if (zmq_socket_monitor(watched.raw(), name.c_str(), ZMQ_EVENT_ALL) != 0) return;
  socket_ = Socket(context, ZMQ_PAIR);
  // Without a limit: the I/O thread that tells an event would wait for room, holding a lock that
  // stop() needs.
  socket_.set(ZMQ_RCVHWM, 0);
  socket_.connect(name);
}

std::optional<MonitorEvent> Monitor::next() {
  if (!socket_) return std::nullopt;
  Frames parts = socket_.receive(2);
  if (parts.empty() || parts[0].size() < 6) return std::nullopt;
  std::uint16_t event;
  std::uint32_t value;
  std::memcpy(&event, parts[0].data(), sizeof event);
  std::memcpy(&value, parts[0].data() + 2, sizeof value);
  return MonitorEvent{event, static_cast<int>(value)};
}

void Monitor::stop(const Socket& watched) {
  if (watched) zmq_socket_monitor(watched.raw(), nullptr, 0);
  socket_.close();
}

void set_tcp_options(Socket& socket) {
  socket.set(ZMQ_HANDSHAKE_IVL, 5'000);
  socket.set(ZMQ_TCP_KEEPALIVE, 1);
  socket.set(ZMQ_TCP_KEEPALIVE_IDLE, 10);
  socket.set(ZMQ_TCP_KEEPALIVE_INTVL, 5);
  socket.set(ZMQ_TCP_KEEPALIVE_CNT, 3);
  socket.set(ZMQ_TCP_MAXRT, 15'000);
  socket.set(ZMQ_BACKLOG, 256);
}

void set_frame_limits(Socket& socket, std::int64_t most_bytes) {
  socket.set_wide(ZMQ_MAXMSGSIZE, most_bytes);
  socket.set(ZMQ_SNDHWM, 1'000);
  // Of a mebibyte each, at most, which libzmq reads ahead of a peer; it reads no more until we have.
  socket.set(ZMQ_RCVHWM, 64);
}

bool ignore_routing_ids(Socket& router) {
  return router.set(ZMQ_ROUTER_RAW, 1);
}

}  // namespace gpunode::transport::detail
