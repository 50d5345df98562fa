#include "runtime/http/server.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <httplib.h>

#include "runtime/base/descriptor.hpp"

namespace gpunode::http {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kFullPause = std::chrono::milliseconds(100);  // when no file is to be had

// One connection as httplib reads and writes it: until its deadline, and so many bytes.
class Connection final : public httplib::Stream {
 public:
  Connection(int fd, SteadyTime deadline, std::size_t request_bytes)
      : fd_(fd), deadline_(deadline), bytes_left_(request_bytes) {}

  using Stream::write;
  bool is_readable() const override { return begin_ < end_ || wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }
  ssize_t read(char* out, size_t size) override {
    if (begin_ == end_ && !fill()) return -1;
    const std::size_t count = std::min(size, end_ - begin_);
    std::memcpy(out, buffer_ + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) override {
    for (;;) {
      if (!wait(POLLOUT)) return -1;
      const ssize_t count = ::send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return count;
    }
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

  // Waits for the client's own end, so that what is on its way to it is not broken off by a reset.
  void end() {
    ::shutdown(fd_, SHUT_WR);
    char rest[1024];
    while (read(rest, sizeof rest) > 0) {
    }
  }

 private:
  bool wait(short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          deadline_ - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      pollfd one{fd_, events, 0};
      const int ready = ::poll(&one, 1, static_cast<int>(left.count()));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }
  bool fill() {
    const std::size_t most = std::min(sizeof buffer_, bytes_left_);
    if (most == 0 || !wait(POLLIN)) return false;
    const ssize_t count = ::recv(fd_, buffer_, most, 0);
    if (count <= 0) return false;
    begin_ = 0;
    end_ = static_cast<std::size_t>(count);
    bytes_left_ -= end_;
    return true;
  }

  const int fd_;
  const SteadyTime deadline_;
  std::size_t bytes_left_;
  char buffer_[4096];
  std::size_t begin_ = 0, end_ = 0;
};

// httplib without its sockets and threads.
class Protocol final : public httplib::Server {
 public:
  explicit Protocol(http::Server::Handler handler) {
    set_pre_routing_handler([handler = std::move(handler)](const httplib::Request& request,
                                                           httplib::Response& response) {
      Answer answer = handler({request.method, request.path});
      response.status = answer.status;
      if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
      response.set_content(std::move(answer.body), answer.content_type);
      return HandlerResponse::Handled;
    });
  }
  void serve(Connection& connection) {
    bool closed = false;
    process_request(connection, true, closed, nullptr);
    connection.end();
  }
};

Error system_error(const std::string& what, const HostPort& place) {
  const int number = errno;
  const std::string where = place.host + ":" + std::to_string(place.port);
  if (number == EADDRINUSE)
    return {ErrorCode::already_exists, "another program listens on " + where +
                                           ": take another port, or port 0 for a free one"};
  return {ErrorCode::io_error, what + " " + where + ": " + std::strerror(number)};
}

class SocketServer final : public Server {
 public:
  SocketServer(ServerOptions options, Handler handler, Descriptor listening, HostPort place)
      : options_(std::move(options)),
        place_(std::move(place)),
        protocol_(std::move(handler)),
        listening_(std::move(listening)) {
    threads_.emplace_back([this] { accept_all(); });
    for (std::size_t i = 0; i < options_.threads; ++i)
      threads_.emplace_back([this] { serve_all(); });
  }
  ~SocketServer() override { close(); }

  HostPort place() const override { return place_; }
  void close() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(closing_, true)) return;
      ::shutdown(listening_.get(), SHUT_RDWR);  // wakes accept
      for (const int fd : served_) ::shutdown(fd, SHUT_RDWR);
      waiting_.clear();
    }
    changed_.notify_all();
    threads_.clear();
  }

 private:
  void accept_all() {
    for (;;) {
      Descriptor connection(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const int failure = errno;
      std::unique_lock lock(mutex_);
      if (closing_) return;
      if (connection.get() >= 0) {
        if (waiting_.size() < options_.waiting) waiting_.push_back(std::move(connection));
        changed_.notify_all();
      } else if (failure == EMFILE || failure == ENFILE || failure == ENOBUFS ||
                 failure == ENOMEM) {
        changed_.wait_for(lock, kFullPause, [this] { return closing_; });
      }  // else: of the one connection, which is gone
    }
  }
  void serve_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (closing_) return;
      const Descriptor connection = std::move(waiting_.front());
      waiting_.pop_front();
      served_.insert(connection.get());
      lock.unlock();
      serve(connection.get());
      lock.lock();
      served_.erase(connection.get());
    }
  }
  void serve(int fd) {
    const auto deadline = std::chrono::steady_clock::now() + options_.deadline;
    Connection connection(fd, deadline, options_.request_bytes);
    protocol_.serve(connection);
  }

  const ServerOptions options_;
  const HostPort place_;
  Protocol protocol_;
  const Descriptor listening_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::deque<Descriptor> waiting_;
  std::set<int> served_;  // file numbers
  std::vector<std::jthread> threads_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::open(ServerOptions options, Handler handler) {
  HostPort place = options.listen;
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0)
    return Error{ErrorCode::invalid_argument,
                 "'" + place.host + "' is no address: write digits, such as 127.0.0.1"};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  Descriptor listening(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_storage taken{};
  socklen_t size = sizeof taken;
  if (listening.get() < 0 ||
      setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(listening.get(), address->ai_addr, address->ai_addrlen) != 0 ||
      ::listen(listening.get(), SOMAXCONN) != 0 ||
      getsockname(listening.get(), reinterpret_cast<sockaddr*>(&taken), &size) != 0)
    return system_error("cannot listen on", options.listen);
  place = options.listen;
  place.port =
      ntohs(taken.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&taken)->sin6_port
                                        : reinterpret_cast<const sockaddr_in*>(&taken)->sin_port);
  return std::unique_ptr<Server>(std::make_unique<SocketServer>(
      std::move(options), std::move(handler), std::move(listening), std::move(place)));
}

}  // namespace gpunode::http
