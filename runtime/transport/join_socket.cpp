#include "runtime/transport/join_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace gpunode::transport {

namespace {

using namespace detail;

// How replies reach the socket's thread; outlives the socket.
struct ReplyGate {
  std::mutex mutex;
  std::function<void(Bytes route, Bytes frame)> send;  // null: the socket is closed
};

class Listener final : public JoinSocket {
 public:
  Listener(Callbacks callbacks, Limits limits)
      : callbacks_(std::move(callbacks)), limits_(limits) {}
  ~Listener() override { close(); }

  Result<void> start(const std::string& endpoint) {
    socket_ = Socket(control_context(), ZMQ_ROUTER);
    set_tcp_options(socket_);
    socket_.set(ZMQ_ROUTER_MANDATORY, 1);
    socket_.set_wide(ZMQ_MAXMSGSIZE, kMaxJoinFrameBytes);
    monitor_ = Monitor(control_context(), socket_);
    auto bound = socket_.bind(endpoint);
    if (!bound) return bound.error().within("join port");
    endpoint_ = *bound;
    if (auto target = parse_endpoint(endpoint_)) ports_.push_back(target->port);
    gate_->send = [this](Bytes route, Bytes frame) {
      reactor_.post([this, route = std::move(route), frame = std::move(frame)] {
        Frames out;
        out.emplace_back(route);
        out.emplace_back(frame);
        socket_.send(out);  // one who went away gets nothing
        serve();
      });
    };
    reactor_.watch(socket_.fd(), false, [this] { serve(); });
    reactor_.watch(monitor_.fd(), false, [this] { count_connections(); });
    reactor_.post([this] {
      count_connections();
      serve();
    });
    reactor_.start();
    return {};
  }

  std::string endpoint() const override { return endpoint_; }

  void close() override {
    {
      std::lock_guard lock(gate_->mutex);
      gate_->send = nullptr;
    }
    reactor_.stop([this] {
      for (auto& connection : connections_) ::close(connection.own_fd);
      connections_.clear();
      if (!socket_) return;
      monitor_.stop(socket_);
      socket_.close();
    });
  }

 private:
  struct Connection {
    int fd;      // as the monitor names it
    int own_fd;  // by which we can shut it
    std::uint64_t number;
  };

  void serve() {
    for (;;) {
      Frames parts = socket_.receive(3);
      if (parts.empty()) {
        if (socket_.events() & ZMQ_POLLIN) continue;
        return;
      }
      if (parts.size() != 2) continue;
      std::string address = parts[1].property("Peer-Address");
      if (callbacks_.may_speak && !callbacks_.may_speak(address)) continue;
      auto unused = std::make_shared<std::atomic<bool>>(true);
      Reply reply = [gate = gate_, route = to_bytes(parts[0].view()), unused](Bytes frame) {
        if (!unused->exchange(false)) return;
        std::lock_guard lock(gate->mutex);
        if (gate->send) gate->send(route, std::move(frame));
      };
      callbacks_.on_frame(address, to_bytes(parts[1].view()), std::move(reply));
    }
  }

  void count_connections() {
    for (;;) {
      auto event = monitor_.next();
      if (!event) {
        if (monitor_.events() & ZMQ_POLLIN) continue;
        return;
      }
      if (event->event == ZMQ_EVENT_DISCONNECTED) forget(event->value);
      if (event->event != ZMQ_EVENT_ACCEPTED) continue;
      forget(event->value);
      int own = duplicate_connection(event->value, ports_);
      if (own < 0) continue;
      std::uint64_t number = next_number_++;
      connections_.push_back({event->value, own, number});
      // The oldest goes: who joins is through in a moment, who floods is not.
      if (connections_.size() > limits_.connections) shut(connections_.front().number);
      reactor_.after(limits_.life, [this, number] { shut(number); });
    }
  }

  void shut(std::uint64_t number) {
    auto found = std::ranges::find(connections_, number, &Connection::number);
    if (found == connections_.end()) return;
    ::shutdown(found->own_fd, SHUT_RDWR);
    ::close(found->own_fd);
    connections_.erase(found);
  }

  void forget(int fd) {
    auto found = std::ranges::find(connections_, fd, &Connection::fd);
    if (found == connections_.end()) return;
    ::close(found->own_fd);
    connections_.erase(found);
  }

  const Callbacks callbacks_;
  const Limits limits_;
  std::string endpoint_;
  std::vector<std::uint16_t> ports_;
  Socket socket_;
  Monitor monitor_;
  std::deque<Connection> connections_;
  std::uint64_t next_number_ = 1;
  std::shared_ptr<ReplyGate> gate_ = std::make_shared<ReplyGate>();
  Reactor reactor_;
};

}  // namespace

Result<std::unique_ptr<JoinSocket>> JoinSocket::listen(const std::string& endpoint,
                                                       Callbacks callbacks, Limits limits) {
  auto listener = std::make_unique<Listener>(std::move(callbacks), limits);
  if (auto started = listener->start(endpoint); !started) return started.error();
  return std::unique_ptr<JoinSocket>(std::move(listener));
}

}  // namespace gpunode::transport
