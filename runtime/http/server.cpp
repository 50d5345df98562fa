#include "runtime/http/server.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "runtime/http/detail/connection.hpp"

namespace gpunode::http {
namespace {

using detail::Connection;
using detail::SteadyTime;

constexpr auto kFullPause = std::chrono::milliseconds(100);  // when no file is to be had

SteadyTime now() {
  return std::chrono::steady_clock::now();
}

class PieceWriter final : public Writer {
 public:
  PieceWriter(httplib::DataSink& sink, const Connection& connection)
      : sink_(sink), connection_(connection) {}
  bool write(std::string_view piece) override {
    // A piece of nothing would end the answer.
    return piece.empty() ? is_open() : (open_ = open_ && sink_.write(piece.data(), piece.size()));
  }
  bool is_open() const override { return open_ && !connection_.is_gone(); }

 private:
  httplib::DataSink& sink_;
  const Connection& connection_;
  bool open_ = true;
};

// httplib without its sockets and threads.
class Protocol final : public httplib::Server {
 public:
  Protocol(const ServerOptions& options, http::Server::Handler handler)
      : options_(options), handler_(std::move(handler)) {
    svr_sock_ = 0;  // any number: without one it takes itself for shut down, and streams nothing
    set_payload_max_length(options.request_bytes);
    set_keep_alive_max_count(1'000'000);  // only told; and so is the other
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(options.idle).count());
    // What is packed may become any amount when it is unpacked.
    set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!request.has_header("Content-Encoding")) return HandlerResponse::Unhandled;
      response.status = 415;
      response.set_content("send the request without Content-Encoding\n", "text/plain");
      return HandlerResponse::Handled;
    });
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      give(request, response);
    };
    Get(kAnyPath, answer);
    Post(kAnyPath, answer);
    Put(kAnyPath, answer);
    Patch(kAnyPath, answer);
    Delete(kAnyPath, answer);
    Options(kAnyPath, answer);
  }

  // Whether another request may come on this connection.
  bool serve(Connection& connection) {
    bool closed = false;
    answering_ = &connection;
    answered_ = false;
    const bool done = process_request(
        connection, options_.idle == Duration::zero(), closed,
        [](httplib::Request& request) { request.headers.erase("Accept-Encoding"); });
    // Of one that was refused before its body there may be any rest.
    return done && answered_ && !closed && options_.idle > Duration::zero();
  }

 private:
  static constexpr const char* kAnyPath = "[^]*";

  void give(const httplib::Request& request, httplib::Response& response) {
    Connection& connection = *answering_;
    answered_ = true;
    connection.begin_answer(now() + options_.answer_deadline, options_.deadline);
    http::Request asked{
        .method = request.method, .path = request.path, .client = connection.client()};
    asked.query = {request.params.begin(), request.params.end()};
    for (const auto& [name, value] : request.headers) {
      std::string small = name;
      std::ranges::transform(small, small.begin(), [](unsigned char letter) {
        return 'A' <= letter && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A'))
                                              : static_cast<char>(letter);
      });
      asked.headers[small] = value;
    }
    asked.body = request.body;
    asked.is_open = [&connection] { return !connection.is_gone(); };
    Answer answer = handler_(asked);
    response.status = answer.status;
    for (const auto& [name, value] : answer.headers) response.set_header(name, value);
    if (!answer.stream) return response.set_content(std::move(answer.body), answer.content_type);
    response.set_chunked_content_provider(
        answer.content_type,
        [&connection, stream = std::move(answer.stream)](std::size_t, httplib::DataSink& sink) {
          PieceWriter writer(sink, connection);
          stream(writer);
          sink.done();
          return true;
        });
  }

  const ServerOptions options_;
  const http::Server::Handler handler_;
  // Of the request that this thread reads.
  static thread_local Connection* answering_;
  static thread_local bool answered_;
};
thread_local Connection* Protocol::answering_ = nullptr;
thread_local bool Protocol::answered_ = false;

std::string address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* address =
      from.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(&from)->sin_addr;
  return inet_ntop(from.ss_family, address, text, sizeof text) ? text : "";
}

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
  SocketServer(ServerOptions options, Handler handler, Descriptor listening, Descriptor wake,
               HostPort place)
      : options_(std::move(options)),
        place_(std::move(place)),
        protocol_(options_, std::move(handler)),
        listening_(std::move(listening)),
        wake_(std::move(wake)) {
    threads_.emplace_back([this] { watch(); });
    for (std::size_t i = 0; i < options_.threads; ++i)
      threads_.emplace_back([this] { serve_all(); });
  }
  ~SocketServer() override { close(); }

  HostPort place() const override { return place_; }
  void close() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(closing_, true)) return;
      ::shutdown(listening_.get(), SHUT_RDWR);  // those that nobody has accepted yet
      for (const int number : served_) ::shutdown(number, SHUT_RDWR);
      waiting_.clear();
    }
    changed_.notify_all();
    wake();
    threads_.clear();
    idle_.clear();
  }

 private:
  using Owned = std::unique_ptr<Connection>;
  struct Idle {
    Owned connection;
    SteadyTime until;  // a request must have begun
  };

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  // Accepts, and hands on what has something to read. Idle connections are this thread's alone.
  void watch() {
    for (std::vector<pollfd> all;;) {
      all.assign({{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}});
      auto next = now() + std::chrono::hours(1);
      for (const Idle& one : idle_) {
        all.push_back({one.connection->number(), POLLIN, 0});
        next = std::min(next, one.until);
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now());
      const auto most = std::max<std::int64_t>(0, left.count());
      if (::poll(all.data(), all.size(), static_cast<int>(most)) < 0 && errno != EINTR)
        std::this_thread::sleep_for(kFullPause);
      std::uint64_t times = 0;
      if (all[0].revents != 0) (void)!::read(wake_.get(), &times, sizeof times);
      std::unique_lock lock(mutex_);
      if (closing_) return;
      look_after_idle(std::span(all).subspan(2));
      while (!back_.empty()) {
        idle_.push_back({std::move(back_.front()), now() + options_.idle});
        back_.pop_front();
      }
      lock.unlock();
      if (all[1].revents != 0) accept_one();
    }
  }

  // Those with something to read are served next; those that were idle for too long are closed.
  void look_after_idle(std::span<const pollfd> seen) {
    std::size_t at = 0;
    std::erase_if(idle_, [&](Idle& one) {
      if (seen[at++].revents != 0) {
        waiting_.push_back(std::move(one.connection));
        changed_.notify_one();
        return true;
      }
      if (one.until > now()) return false;
      --open_;
      return true;
    });
  }

  void accept_one() {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Descriptor socket(::accept4(listening_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int failure = errno;
    if (socket.get() < 0) {  // else: of the one connection, which is gone
      if (failure == EMFILE || failure == ENFILE || failure == ENOBUFS || failure == ENOMEM)
        std::this_thread::sleep_for(kFullPause);
      return;
    }
    const int on = 1;
    (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::lock_guard lock(mutex_);
    if (open_ >= options_.connections) {
      const auto longest = std::ranges::min_element(idle_, {}, &Idle::until);
      if (longest == idle_.end()) return;
      idle_.erase(longest);
      --open_;
    }
    ++open_;
    idle_.push_back({std::make_unique<Connection>(std::move(socket), address_of(from)),
                     now() + options_.deadline});
  }

  void serve_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (closing_) return;
      Owned connection = std::move(waiting_.front());
      waiting_.pop_front();
      served_.insert(connection->number());
      lock.unlock();
      const bool goes_on = serve(*connection);
      lock.lock();
      served_.erase(connection->number());
      if (!goes_on || closing_) {
        --open_;
        lock.unlock();
        connection.reset();
        lock.lock();
        continue;
      }
      back_.push_back(std::move(connection));
      wake();
    }
  }

  // What the client has sent so far, one request after another.
  bool serve(Connection& connection) {
    do {
      connection.begin_request(now() + options_.deadline, options_.request_bytes);
      if (protocol_.serve(connection)) continue;
      connection.begin_request(now() + options_.deadline, options_.request_bytes);
      connection.end();
      return false;
    } while (connection.has_more());
    return true;
  }

  const ServerOptions options_;
  const HostPort place_;
  Protocol protocol_;
  const Descriptor listening_, wake_;
  std::vector<Idle> idle_;  // of watch() alone
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::size_t open_ = 0;              // connections in all
  std::deque<Owned> waiting_, back_;  // with something to read; to be watched again
  std::set<int> served_;              // file numbers
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
  Descriptor listening(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return system_error("cannot watch", options.listen);
  return std::unique_ptr<Server>(
      std::make_unique<SocketServer>(std::move(options), std::move(handler), std::move(listening),
                                     std::move(wake), std::move(place)));
}

}  // namespace gpunode::http
