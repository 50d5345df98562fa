// The dialling end of the join port (join_socket.hpp): finds out what is wrong, one cause a code.
#include <poll.h>

#include <cerrno>

#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::transport {

namespace {

using namespace detail;

constexpr std::int64_t kMaxAnswerBytes = std::int64_t{1} << 20;

enum class Wait { ready, broken, late };

class Connection final : public JoinConnection {
 public:
  Connection(std::string name, std::string address)
      : name_(std::move(name)), address_(std::move(address)) {}
  ~Connection() override { monitor_.stop(socket_); }

  Result<void> open(const SocketAddress& address, std::uint16_t port, Duration deadline) {
    socket_ = Socket(control_context(), ZMQ_DEALER);
    set_tcp_options(socket_);
    socket_.set(ZMQ_RECONNECT_IVL, -1);
    socket_.set_wide(ZMQ_MAXMSGSIZE, kMaxAnswerBytes);
    monitor_ = Monitor(control_context(), socket_);
    bool six = address.storage.ss_family == AF_INET6;
    std::string host = six ? "[" + address_ + "]" : address_;
    socket_.connect("tcp://" + host + ":" + std::to_string(port));
    if (wait(deadline, [this] { return shaken_; }) == Wait::ready) return {};
    return {ErrorCode::protocol_mismatch,
            "what listens on " + name_ +
                " is not a gpunode join port: the join port is the one that gpunode up prints"};
  }

  Result<Bytes> ask(ByteView frame, Duration deadline) override {
    if (frame.size() > kMaxJoinFrameBytes) {
      return {ErrorCode::invalid_argument,
              "a join frame may have 4096 bytes, this one has " + std::to_string(frame.size())};
    }
    Frames out;
    out.emplace_back(frame);
    if (broken_ || socket_.send(out) != Sent::yes) return lost();
    switch (wait(deadline, [this] { return (socket_.events() & ZMQ_POLLIN) != 0; })) {
      case Wait::ready: {
        Frames parts = socket_.receive(2);
        if (parts.size() == 1) return to_bytes(parts[0].view());
        return Error{ErrorCode::protocol_mismatch, name_ + " does not speak as a gpunode does"};
      }
      case Wait::broken:
        return lost();
      case Wait::late:
        break;
    }
    return {ErrorCode::timeout, "no answer from " + name_ + ": try again"};
  }

  std::string peer_address() const override { return address_; }

 private:
  Error lost() const {
    return {ErrorCode::peer_lost, name_ + " closed the connection: try again, or another node"};
  }

  template <class Ready>
  Wait wait(Duration patience, Ready ready) {
    SystemClock clock;
    Time deadline = clock.now() + patience;
    for (;;) {
      while (auto event = monitor_.next()) {
        shaken_ |= event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        broken_ |= event->event == ZMQ_EVENT_DISCONNECTED ||
                   event->event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                   event->event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
                   event->event == ZMQ_EVENT_CLOSED;
      }
      if (ready()) return Wait::ready;
      if (broken_) return Wait::broken;
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.now());
      if (left.count() <= 0) return Wait::late;
      if (monitor_.events() & ZMQ_POLLIN) continue;
      pollfd waiting[2] = {{socket_.fd(), POLLIN, 0}, {monitor_.fd(), POLLIN, 0}};
      ::poll(waiting, 2, static_cast<int>(std::min<long long>(left.count() + 1, 60'000)));
    }
  }

  const std::string name_;
  const std::string address_;
  Socket socket_;
  Monitor monitor_;
  bool shaken_ = false;
  bool broken_ = false;
};

}  // namespace

Result<std::unique_ptr<JoinConnection>> JoinConnection::dial(const std::string& host,
                                                             std::uint16_t port,
                                                             Duration deadline) {
  if (host.empty() || port == 0) {
    return {ErrorCode::invalid_argument, "a peer is given as host:port, like 10.0.0.5:7603"};
  }
  std::string name = host + ":" + std::to_string(port);
  auto address = resolve({host, port});
  if (!address) return address.error();
  if (auto open = check_connect(*address, name, deadline); !open) return open.error();
  auto connection = std::make_unique<Connection>(name, address->text());
  if (auto opened = connection->open(*address, port, deadline); !opened) return opened.error();
  return std::unique_ptr<JoinConnection>(std::move(connection));
}

Result<void> tcp_reachable(const std::string& endpoint, Duration patience) {
  auto target = parse_endpoint(endpoint);
  if (!target) {
    return {ErrorCode::invalid_argument, endpoint + " is not an address like tcp://10.0.0.5:7601"};
  }
  auto address = resolve(*target);
  if (!address) return address.error();
  return check_connect(*address, target->host + ":" + std::to_string(target->port), patience);
}

}  // namespace gpunode::transport
