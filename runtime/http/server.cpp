#include "runtime/http/server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "runtime/base/log.hpp"
#include "runtime/http/detail/exchange.hpp"
#include "runtime/http/detail/resting.hpp"
#include "runtime/http/detail/socket.hpp"

namespace gpunode::http {
namespace {

using detail::Connection;
using detail::Resting;
using detail::SteadyTime;

constexpr auto kFullPause = std::chrono::milliseconds(100);  // when no file is to be had
constexpr auto kRestPause = std::chrono::seconds(2);         // for the rest of who is hung up on
constexpr std::size_t kLeastBodyRate = 64 << 10;             // bytes a second
constexpr std::size_t kAcceptedAtOnce = 64;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

SteadyTime now() {
  return std::chrono::steady_clock::now();
}

// A client that is gone is told by the call that writes to it, also where OpenSSL writes.
void take_no_broken_pipes() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

struct Opened {
  Descriptor listening, wake;
  HostPort place;
  std::unique_ptr<Tls> tls;
};

class SocketServer final : public Server {
 public:
  SocketServer(ServerOptions options, Handler handler, Opened opened)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        opened_(std::move(opened)),
        watcher_([this] { watch(); }) {}
  ~SocketServer() override { close(); }

  HostPort place() const override { return opened_.place; }
  void drain(std::chrono::milliseconds at_most) override {
    constexpr auto kLook = std::chrono::milliseconds(20);
    ::shutdown(opened_.listening.get(), SHUT_RDWR);
    for (auto left = at_most; left > left.zero(); left -= kLook) {
      if (std::lock_guard lock(mutex_); served_.empty() && waiting_.empty()) return;
      std::this_thread::sleep_for(kLook);
    }
  }
  void close() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(closing_, true)) return;
      ::shutdown(opened_.listening.get(), SHUT_RDWR);  // those that nobody has accepted yet
      for (const int number : served_) ::shutdown(number, SHUT_RDWR);
    }
    changed_.notify_all();
    wake();
    watcher_.join();
    threads_.clear();
    waiting_.clear();
    back_.clear();
  }

 private:
  using Owned = Resting::Owned;

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(opened_.wake.get(), &one, sizeof one);
  }

  // Accepts, and hands on what has something to read or whose time is over.
  void watch() {
    take_no_broken_pipes();
    Resting resting;
    bool good = resting.is_open() && resting.watch(opened_.wake.get()) &&
                resting.watch(opened_.listening.get());
    if (!good) return log::error("http", "nothing is answered: no epoll set is to be had");
    for (;;) {
      bool knocks = false;
      for (const int number : resting.wait()) {
        std::uint64_t times = 0;
        if (number == opened_.wake.get())
          (void)!::read(number, &times, sizeof times);
        else if (number == opened_.listening.get())
          knocks = true;
        else if (Owned one = resting.take(number))
          hand_on(std::move(one));
      }
      take_back(resting);
      for (const auto at = now(); Owned late = resting.take_late(at);) end_late(std::move(late));
      if (std::lock_guard lock(mutex_); closing_) return;
      for (std::size_t count = 0; knocks && count < kAcceptedAtOnce; ++count)
        knocks = accept_one(resting);
    }
  }

  void take_back(Resting& resting) {
    std::deque<Owned> back;
    {
      std::lock_guard lock(mutex_);
      back.swap(back_);
    }
    for (Owned& one : back) resting.add(std::move(one));
  }

  void hand_on(Owned connection) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(connection));
    if (waiting_.size() > free_threads_ && threads_.size() < options_.threads) start_thread();
    changed_.notify_one();
  }

  void start_thread() {
    try {
      threads_.emplace_back([this] { serve_all(); });
    } catch (const std::system_error& failure) {
      if (threads_.empty())
        log::error("http", std::string("no thread to answer with: ") + failure.what());
    }
  }

  // Who has begun a request is told.
  void end_late(Owned connection) {
    if (connection->ended || connection->reader().is_empty()) return forget(*connection);
    connection->timed_out = true;
    hand_on(std::move(connection));
  }

  // Whether there may be another one.
  bool accept_one(Resting& resting) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Descriptor socket(::accept4(opened_.listening.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int failure = errno;
    if (socket.get() < 0) {  // else: of the one connection, which is gone
      if (failure == EMFILE || failure == ENFILE || failure == ENOBUFS || failure == ENOMEM)
        return std::this_thread::sleep_for(kFullPause), false;
      return failure != EAGAIN && failure != EWOULDBLOCK && failure != EINVAL;
    }
    const int on = 1;
    (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::string client = detail::address_of(from);
    if (!make_room(resting, client)) {
      if (!opened_.tls) say_full(socket);
      return true;
    }
    Connection::Session session;
    if (opened_.tls) {
      opened_.tls->reload_if_changed();
      session.reset(opened_.tls->new_session());
      if (!session) return true;
    }
    auto connection = std::make_unique<Connection>(
        std::move(socket), client, std::move(session),
        RequestReader::Limits{options_.head_bytes, options_.body_bytes});
    connection->since = now();
    connection->until = connection->since + options_.deadline;
    {
      std::lock_guard lock(mutex_);
      ++open_;
      ++of_address_[client];
    }
    resting.add(std::move(connection));
    return true;
  }

  // For one more of that address.
  bool make_room(Resting& resting, const std::string& client) {
    std::string crowded;
    {
      std::lock_guard lock(mutex_);
      const auto own = of_address_.find(client);
      const bool many = own != of_address_.end() && own->second >= options_.connections_of_address;
      if (!many && open_ < options_.connections) return true;
      crowded = client;
      if (!many)
        for (std::size_t most = 0; const auto& [address, count] : of_address_)
          if (count > most) std::tie(crowded, most) = std::pair(address, count);
    }
    const Owned longest = resting.take_longest(crowded);
    if (longest) forget(*longest);
    return longest != nullptr;
  }

  // As far as it goes at once.
  void say_full(const Descriptor& socket) const {
    const Answer answer = refusal({.method = {}, .path = {}}, 503,
                                  "as many connections as may be are open: try again later");
    Connection one(Descriptor(::dup(socket.get())), {}, {}, {0, 0});
    (void)detail::write_answer(one, answer, {}, {now(), Duration::zero()});
  }

  // It is closed by its owner, who lets it go.
  void forget(Connection& connection) {
    std::lock_guard lock(mutex_);
    --open_;
    held_bytes_ -= std::exchange(connection.counted_bytes, 0);
    const auto found = of_address_.find(connection.client());
    if (--found->second == 0) of_address_.erase(found);
  }

  void serve_all() {
    take_no_broken_pipes();
    std::unique_lock lock(mutex_);
    for (;;) {
      ++free_threads_;
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      --free_threads_;
      if (closing_) return;
      Owned connection = std::move(waiting_.front());
      waiting_.pop_front();
      served_.insert(connection->number());
      lock.unlock();
      const bool stays = serve(*connection);
      lock.lock();
      served_.erase(connection->number());
      if (stays && !closing_) {
        back_.push_back(std::move(connection));
        wake();
        continue;
      }
      lock.unlock();
      forget(*connection);
      connection.reset();
      lock.lock();
    }
  }

  // What the client has sent so far, one request after another. Whether the connection stays.
  bool serve(Connection& from) {
    if (from.ended) return throw_away(from);
    if (from.timed_out)
      return refuse(from, 408, "the request did not come in time: send it faster, or less of it");
    for (;;) {
      RequestReader& reader = from.reader();
      switch (reader.stage()) {
        case RequestReader::Stage::failed:
          return refuse(from, reader.status(), reader.why());
        case RequestReader::Stage::whole:
          if (!answer(from)) return end(from);
          continue;
        default:
          break;
      }
      const bool begun = !reader.is_empty(),
                 had_head = reader.stage() == RequestReader::Stage::body;
      switch (from.receive()) {
        case Connection::Got::end:
          if (from.is_plain_to_tls()) say_plainly(from);
          return false;
        case Connection::Got::nothing:
          return true;
        default:
          break;
      }
      if (!begun && !reader.is_empty()) from.until = now() + options_.deadline;
      if (!had_head && reader.stage() == RequestReader::Stage::body && !begin_body(from))
        return end(from);
      if (!count(from))
        return refuse(from, 503, "too much is being sent at once: try again in a moment");
    }
  }

  // Whether it is to come.
  bool begin_body(Connection& from) {
    RequestReader& reader = from.reader();
    const std::size_t bytes =
        reader.told_body_bytes() > 0 ? reader.told_body_bytes() : options_.body_bytes;
    from.until = now() + options_.deadline +
                 std::chrono::milliseconds(std::uint64_t{bytes} * 1000 / kLeastBodyRate);
    if (options_.look_at_head)
      if (const auto instead = options_.look_at_head(asked_of(from, reader.request()))) {
        (void)write(from, *instead, false);
        return false;
      }
    return !reader.take_continue() || from.send(kContinue, now() + options_.deadline);
  }

  // What of its request is here, in the sum of all. False: that is too much.
  bool count(Connection& from) {
    std::lock_guard lock(mutex_);
    const std::size_t bytes = from.reader().buffered_bytes();
    held_bytes_ = held_bytes_ - from.counted_bytes + bytes;
    from.counted_bytes = bytes;
    return held_bytes_ <= options_.bytes_under_way ||
           from.reader().stage() == RequestReader::Stage::whole;
  }

  static Request asked_of(Connection& from, Request request) {
    request.client = from.client();
    request.is_open = [&from] { return !from.is_gone(); };
    return request;
  }

  // Whether another one may come.
  bool answer(Connection& from) {
    const bool goes_on = from.reader().keeps_alive() && options_.idle > Duration::zero();
    form_ = {.in_chunks = !from.reader().is_1_0()};
    const Request asked = asked_of(from, from.reader().take());
    form_.without_body = asked.method == "HEAD";
    (void)count(from);
    const bool written = write(from, answer_of(asked), goes_on);
    from.since = now();
    from.until = from.since + (from.reader().is_empty() ? options_.idle : options_.deadline);
    return written && goes_on;
  }

  Answer answer_of(const Request& asked) const {
    try {
      return handler_(asked);
    } catch (const std::exception& thrown) {
      log::error("http", "an answer to " + asked.path + " failed: " + thrown.what());
      return refusal(asked, 500, "the answer could not be made; the node's log tells why");
    }
  }

  bool write(Connection& to, const Answer& answer, bool goes_on) {
    form_.goes_on = goes_on;
    return detail::write_answer(to, answer, form_,
                                {now() + options_.answer_deadline, options_.deadline});
  }

  Answer refusal(const Request& request, int status, const std::string& why) const {
    if (options_.refuse) return options_.refuse(request, status, why);
    return {.status = status, .body = why + "\n"};
  }

  bool refuse(Connection& from, int status, const std::string& why) {
    form_ = {};
    (void)write(from, refusal(asked_of(from, from.reader().request()), status, why), false);
    return end(from);
  }

  void say_plainly(Connection& from) const {
    const Answer answer =
        refusal({.method = {}, .path = {}}, 400, "this port speaks TLS: ask by https://");
    Connection plain(Descriptor(::dup(from.number())), {}, {}, {0, 0});
    (void)detail::write_answer(plain, answer, {}, {now(), Duration::zero()});
  }

  bool end(Connection& from) {
    from.end();
    from.until = now() + kRestPause;
    return throw_away(from);
  }

  static bool throw_away(Connection& from) {
    for (;;)
      if (const auto got = from.throw_away(); got != Connection::Got::bytes)
        return got == Connection::Got::nothing;
  }

  const ServerOptions options_;
  const Handler handler_;
  const Opened opened_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::size_t open_ = 0, held_bytes_ = 0, free_threads_ = 0;
  std::map<std::string, std::size_t> of_address_;
  std::deque<Owned> waiting_, back_;  // with something to do; to be watched again
  std::set<int> served_;              // file numbers
  std::vector<std::jthread> threads_;
  std::jthread watcher_;
  static thread_local detail::AnswerForm form_;  // of the request that this thread answers
};
thread_local detail::AnswerForm SocketServer::form_;

}  // namespace

Result<std::unique_ptr<Server>> Server::open(ServerOptions options, Handler handler) {
  HostPort place;
  auto listening = detail::listen_on(options.listen, place);
  if (!listening) return listening.error();
  std::unique_ptr<Tls> tls;
  if (options.tls) {
    auto opened = Tls::open(*options.tls);
    if (!opened) return opened.error();
    tls = *std::move(opened);
  }
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return detail::socket_error("cannot watch", options.listen);
  return std::unique_ptr<Server>(std::make_unique<SocketServer>(
      std::move(options), std::move(handler),
      Opened{*std::move(listening), std::move(wake), std::move(place), std::move(tls)}));
}

}  // namespace gpunode::http
