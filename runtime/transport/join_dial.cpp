// The dialling end of the join port (join_socket.hpp): finds out what is wrong, one cause a code.
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/transport/detail/join_wire.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::transport {

namespace {

using namespace detail;

class Connection final : public JoinConnection {
 public:
  Connection(int fd, std::string name) : fd_(fd), name_(std::move(name)) {
    set_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  }
  ~Connection() override { ::close(fd_); }

  Result<void> greet(Duration timeout) {
    Time deadline = clock_.now() + timeout;
    std::byte greeting[kJoinGreeting.size()];
    if (write(as_bytes(kJoinGreeting), deadline) == Wait::ready &&
        read(greeting, deadline) == Wait::ready && as_text(greeting) == kJoinGreeting) {
      return {};
    }
    return {ErrorCode::protocol_mismatch,
            "what listens on " + name_ +
                " is not a gpunode join port: the join port is the one that gpunode up prints"};
  }

  Result<Bytes> ask(ByteView frame, Duration timeout) override {
    if (frame.size() > kMaxJoinFrameBytes) {
      return {ErrorCode::invalid_argument,
              "a join frame may have 4096 bytes, this one has " + std::to_string(frame.size())};
    }
    if (over_) return lost();
    over_ = true;  // unless the whole answer comes: a late one would pass for that of the next
    Time deadline = clock_.now() + timeout;
    std::byte head[kJoinHeadBytes];
    Bytes answer;
    Wait waited = write(with_join_head(frame), deadline);
    if (waited == Wait::ready) waited = read(head, deadline);
    if (waited == Wait::ready) {
      std::uint32_t size = read_join_head(head);
      if (size > kMaxJoinAnswerBytes) {
        return {ErrorCode::protocol_mismatch, name_ + " does not speak as a gpunode does"};
      }
      answer.resize(size);
      waited = read(answer, deadline);
    }
    if (waited == Wait::broken) return lost();
    if (waited == Wait::late) {
      return {ErrorCode::timeout, "no answer from " + name_ + ": try again"};
    }
    over_ = false;
    return answer;
  }

 private:
  enum class Wait { ready, broken, late };

  Error lost() const {
    return {ErrorCode::peer_lost, name_ + " closed the connection: try again, or another node"};
  }

  Wait write(ByteView bytes, Time deadline) {
    return move(bytes.size(), POLLOUT, deadline, [&](std::size_t done) {
      return ::send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    });
  }
  Wait read(MutableByteView bytes, Time deadline) {
    return move(bytes.size(), POLLIN, deadline, [&](std::size_t done) {
      return ::recv(fd_, bytes.data() + done, bytes.size() - done, 0);
    });
  }

  template <class Some>
  Wait move(std::size_t size, short event, Time deadline, Some some) {
    for (std::size_t done = 0; done < size;) {
      auto moved = some(done);
      if (moved > 0) {
        done += static_cast<std::size_t>(moved);
        continue;
      }
      if (moved == 0 || (errno != EAGAIN && errno != EINTR)) return Wait::broken;
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock_.now());
      if (left.count() <= 0) return Wait::late;
      pollfd waiting{fd_, event, 0};
      ::poll(&waiting, 1, static_cast<int>(std::min<long long>(left.count() + 1, 60'000)));
    }
    return Wait::ready;
  }

  const int fd_;
  const std::string name_;
  const SystemClock clock_;
  bool over_ = false;
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
  auto fd = connect_within(*address, name, deadline);
  if (!fd) return fd.error();
  auto connection = std::make_unique<Connection>(*fd, name);
  if (auto greeted = connection->greet(deadline); !greeted) return greeted.error();
  return std::unique_ptr<JoinConnection>(std::move(connection));
}

Result<void> tcp_reachable(const std::string& endpoint, Duration timeout) {
  auto target = parse_endpoint(endpoint);
  if (!target) {
    return {ErrorCode::invalid_argument, endpoint + " is not an address like tcp://10.0.0.5:7601"};
  }
  auto address = resolve(*target);
  if (!address) return address.error();
  auto fd = connect_within(*address, target->host + ":" + std::to_string(target->port), timeout);
  if (!fd) return fd.error();
  ::close(*fd);
  return {};
}

}  // namespace gpunode::transport
