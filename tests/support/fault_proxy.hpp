// FaultProxy: a TCP proxy on loopback inside the test's process, which does to connections what
// networks do: stop one way, reset, refuse, delay, trickle, flip a byte. It counts what passed, so
// that a test can assert that its fault really struck. One thread.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpunode::testing {

class FaultProxy {
 public:
  enum class Way : unsigned { to_target = 0, from_target = 1 };
  struct Counts {
    std::uint64_t connections = 0;
    std::uint64_t bytes[2] = {0, 0};  // by Way
    std::uint64_t flipped = 0;
    std::uint64_t resets = 0;
  };

  // Forwards connections to its own port to 127.0.0.1:target_port.
  explicit FaultProxy(std::uint16_t target_port) : target_port_(target_port) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (::pipe2(wake_, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    thread_ = std::thread([this] { run(); });
  }
  ~FaultProxy() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
    for (Connection& connection : connections_) close(connection, false);
    ::close(listener_);
    ::close(wake_[0]);
    ::close(wake_[1]);
  }
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const { return port_; }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  // Bytes of that way are no longer taken (the sender's window fills) until flow().
  void stop(Way way) {
    change([&] { stopped_[index(way)] = true; });
  }
  void cut() {
    change([&] { stopped_[0] = stopped_[1] = true; });
  }
  void flow() {
    change([&] { stopped_[0] = stopped_[1] = false; });
  }
  // Resets (RST) all connections; new ones are let through.
  void reset() {
    change([&] { reset_due_ = true; });
  }
  // Resets new connections at once, as a host without the program would.
  void refuse(bool on) {
    change([&] { refusing_ = on; });
  }
  void delay(std::chrono::milliseconds by) {
    change([&] { delay_ = by; });
  }
  // Bytes a second each way and connection; 0: no limit.
  void rate(std::uint64_t bytes_per_second) {
    change([&] { rate_ = bytes_per_second; });
  }
  // Flips one bit in the middle of the next piece of at least `at_least` bytes of that way.
  void flip(Way way, std::size_t at_least) {
    change([&] {
      flip_way_ = index(way);
      flip_size_ = at_least;
    });
  }
  Counts counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  using Instant = std::chrono::steady_clock::time_point;
  struct Piece {
    Instant due;
    std::vector<char> bytes;
    std::size_t written = 0;
  };
  struct Pipe {
    std::deque<Piece> pieces;
    std::size_t waiting = 0;
    Instant next_read{};  // by the rate
    bool ended = false;
  };
  struct Connection {
    int fds[2] = {-1, -1};  // client, target
    Pipe pipes[2];          // by Way: from fds[way] to fds[1 - way]
  };
  static constexpr std::size_t kMaxWaiting = 1 << 20;

  static unsigned index(Way way) { return static_cast<unsigned>(way); }
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  template <class Change>
  void change(Change apply) {
    {
      std::lock_guard lock(mutex_);
      apply();
    }
    wake();
  }
  void wake() {
    char one = 1;
    [[maybe_unused]] auto written = ::write(wake_[1], &one, 1);
  }
  static void close(Connection& connection, bool hard) {
    for (int& fd : connection.fds) {
      linger option{1, 0};
      if (hard) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, sizeof option);
      ::close(fd);
      fd = -1;
    }
  }

  void accept_all() {
    for (;;) {
      int client = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (client < 0) return;
      Connection connection;
      connection.fds[0] = client;
      connection.fds[1] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in target = loopback(target_port_);
      bool reached =
          !refusing_ &&
          ::connect(connection.fds[1], reinterpret_cast<sockaddr*>(&target), sizeof target) == 0;
      if (!reached) {
        close(connection, true);
        ++counts_.resets;
        continue;
      }
      int on = 1;
      for (int fd : connection.fds) {
        ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      }
      ++counts_.connections;
      connections_.push_back(std::move(connection));
    }
  }

  bool may_read(const Pipe& pipe, unsigned way, Instant now) const {
    return !stopped_[way] && !pipe.ended && pipe.waiting < kMaxWaiting && pipe.next_read <= now;
  }

  // False: the connection is over.
  bool read_some(Connection& connection, unsigned way, Instant now) {
    Pipe& pipe = connection.pipes[way];
    std::size_t size = rate_ == 0 ? 65'536 : std::clamp<std::size_t>(rate_ / 100, 1, 65'536);
    std::vector<char> bytes(size);
    ssize_t got = ::read(connection.fds[way], bytes.data(), size);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
      pipe.ended = true;
      return !pipe.pieces.empty();
    }
    bytes.resize(static_cast<std::size_t>(got));
    if (rate_ > 0) {
      pipe.next_read = now + std::chrono::microseconds(1'000'000 * bytes.size() / rate_);
    }
    if (flip_size_ > 0 && flip_way_ == way && bytes.size() >= flip_size_) {
      bytes[bytes.size() / 2] ^= 0x10;
      flip_size_ = 0;
      ++counts_.flipped;
    }
    pipe.waiting += bytes.size();
    pipe.pieces.push_back({now + delay_, std::move(bytes)});
    return true;
  }

  bool write_some(Connection& connection, unsigned way, Instant now) {
    Pipe& pipe = connection.pipes[way];
    while (!pipe.pieces.empty() && pipe.pieces.front().due <= now && !stopped_[way]) {
      Piece& piece = pipe.pieces.front();
      ssize_t sent = ::send(connection.fds[1 - way], piece.bytes.data() + piece.written,
                            piece.bytes.size() - piece.written, MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      piece.written += static_cast<std::size_t>(sent);
      pipe.waiting -= static_cast<std::size_t>(sent);
      counts_.bytes[way] += static_cast<std::uint64_t>(sent);
      if (piece.written < piece.bytes.size()) return true;
      pipe.pieces.pop_front();
    }
    return !(pipe.ended && pipe.pieces.empty());
  }

  void run() {
    for (;;) {
      std::vector<pollfd> waiting{{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
      int timeout = -1;
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        Instant now = std::chrono::steady_clock::now();
        for (Connection& connection : connections_) {
          for (unsigned way : {0u, 1u}) {
            Pipe& pipe = connection.pipes[way];
            short events = may_read(pipe, way, now) ? POLLIN : 0;
            bool due = !pipe.pieces.empty() && !stopped_[way];
            Pipe& back = connection.pipes[1 - way];
            if (!back.pieces.empty() && back.pieces.front().due <= now && !stopped_[1 - way]) {
              events |= POLLOUT;
            }
            if ((due && pipe.pieces.front().due > now) || pipe.next_read > now) timeout = 1;
            waiting.push_back({connection.fds[way], events, 0});
          }
        }
      }
      ::poll(waiting.data(), waiting.size(), timeout);
      std::lock_guard lock(mutex_);
      char drained[64];
      while (::read(wake_[0], drained, sizeof drained) > 0) {
      }
      serve();
    }
  }

  void serve() {
    Instant now = std::chrono::steady_clock::now();
    for (auto it = connections_.begin(); it != connections_.end();) {
      bool alive = !reset_due_;
      counts_.resets += reset_due_;
      for (unsigned way : {0u, 1u}) {
        if (alive && may_read(it->pipes[way], way, now)) alive = read_some(*it, way, now);
        if (alive) alive = write_some(*it, way, now);
      }
      if (alive) {
        ++it;
        continue;
      }
      close(*it, reset_due_);
      it = connections_.erase(it);
    }
    reset_due_ = false;
    accept_all();
  }

  const std::uint16_t target_port_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  mutable std::mutex mutex_;
  std::list<Connection> connections_;
  bool stopped_[2] = {false, false};
  bool refusing_ = false;
  bool reset_due_ = false;
  bool stopping_ = false;
  std::chrono::milliseconds delay_{0};
  std::uint64_t rate_ = 0;
  unsigned flip_way_ = 0;
  std::size_t flip_size_ = 0;
  Counts counts_;
  std::thread thread_;
};

}  // namespace gpunode::testing
