#include "runtime/http/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
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
#include "runtime/http/detail/open_count.hpp"
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
// Who has been answered often asks again at once: so long its thread waits for that itself, which spares
// the watcher and another thread being woken. Not where others wait for a thread.
constexpr int kLingerMs = 2;
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
        open_(options_.connections, options_.connections_of_address),
        slow_readers_{.most = std::max<std::size_t>(1, options_.threads / 2)},
        watcher_([this] { watch(); }) {}
  ~SocketServer() override { close(); }

  HostPort place() const override { return opened_.place; }
  void drain(std::chrono::milliseconds at_most) override {
    constexpr auto kLook = std::chrono::milliseconds(20);
    draining_ = true;
    ::shutdown(opened_.listening.get(), SHUT_RDWR);
    wake();
    for (auto left = at_most; left > left.zero(); left -= kLook) {
      if (std::lock_guard lock(mutex_); open_.all() == ended_) return;
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
    for (bool listens = true;;) {
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
      if (draining_) {
        if (std::exchange(listens, false)) resting.unwatch(opened_.listening.get());
        while (const Owned idle = resting.take_idle()) forget(*idle);
      }
      for (const auto at = now(); Owned late = resting.take_late(at);) end_late(std::move(late));
      if (std::lock_guard lock(mutex_); closing_) return;
      for (std::size_t count = 0; listens && knocks && count < kAcceptedAtOnce; ++count)
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
    auto [socket, client, failure] = detail::accept_on(opened_.listening);
    if (socket.get() < 0) {  // else: of the one connection, which is gone
      if (failure == EMFILE || failure == ENFILE || failure == ENOBUFS || failure == ENOMEM)
        return std::this_thread::sleep_for(kFullPause), false;
      return failure != EAGAIN && failure != EWOULDBLOCK && failure != EINVAL;
    }
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
        RequestReader::Limits{options_.head_bytes, options_.body_bytes}, &slow_readers_);
    connection->since = now();
    connection->until = connection->since + options_.deadline;
    {
      std::lock_guard lock(mutex_);
      open_.add(connection->client());
    }
    resting.add(std::move(connection));
    return true;
  }

  // For one more of that address.
  bool make_room(Resting& resting, const std::string& client) {
    std::optional<std::string> crowded;
    {
      std::lock_guard lock(mutex_);
      crowded = open_.crowded_for(client);
    }
    if (!crowded) return true;
    const Owned longest = resting.take_longest(*crowded);
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
    open_.remove(connection.client());
    if (connection.ended) --ended_;
    held_bytes_ -= std::exchange(connection.counted_bytes, 0);
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
      const Next next = serve(*connection);
      lock.lock();
      served_.erase(connection->number());
      if (next == Next::waits && !closing_) {
        waiting_.push_back(std::move(connection));
        continue;
      }
      if (next == Next::rests && !closing_) {
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

  // A connection that was served rests until more comes; or waits for its turn, as more may be here already
  // and others wait too.
  enum class Next { rests, waits, ends };
  static Next stays_if(bool stays) { return stays ? Next::rests : Next::ends; }

  // What the client has sent so far, one request after another, while nobody else waits for a thread.
  Next serve(Connection& from) {
    if (from.ended) return stays_if(from.throw_away());
    if (from.timed_out)
      return stays_if(
          refuse(from, 408, "the request did not come in time: send it faster, or less of it"));
    bool answered = false;
    for (;;) {
      RequestReader& reader = from.reader();
      switch (reader.stage()) {
        case RequestReader::Stage::failed:
          return stays_if(refuse(from, reader.status(), reader.why()));
        case RequestReader::Stage::whole:
          if (!answer(from) || !begin_body(from)) return stays_if(end(from));
          if (others_wait()) return Next::waits;
          // Whether more is here already is told by the wait for it, where no session keeps some back.
          answered = from.has_session() || !reader.is_empty();
          if (!answered) (void)lingers(from);
          continue;
        default:
          break;
      }
      const bool begun = !reader.is_empty();
      switch (from.receive()) {
        case Connection::Got::end:
          if (from.is_plain_to_tls()) say_plainly(from);
          return Next::ends;
        case Connection::Got::nothing:
          if (begun || !std::exchange(answered, false) || !lingers(from)) return Next::rests;
          continue;
        default:
          break;
      }
      if (!begun && !reader.is_empty()) from.until = now() + options_.deadline;
      if (!begin_body(from)) return stays_if(end(from));
      if (!count(from))
        return stays_if(refuse(from, 503, "too much is being sent at once: try again in a moment"));
    }
  }

  bool others_wait() {
    std::lock_guard lock(mutex_);
    return !waiting_.empty();
  }

  // For the next request of who was just answered. Whether something has come.
  bool lingers(Connection& from) {
    std::unique_lock lock(mutex_);
    const bool others = free_threads_ > 0 || threads_.size() < options_.threads;
    if (closing_ || !others || !waiting_.empty()) return false;
    lock.unlock();
    pollfd one{from.number(), POLLIN, 0};
    return ::poll(&one, 1, kLingerMs) > 0;
  }

  // Once a request, where its head is here and its body is not. Whether it is to come.
  bool begin_body(Connection& from) {
    RequestReader& reader = from.reader();
    if (reader.stage() != RequestReader::Stage::body || std::exchange(from.body_begun, true))
      return true;
    const std::size_t bytes =
        reader.told_body_bytes() > 0 ? reader.told_body_bytes() : options_.body_bytes;
    from.until = now() + options_.deadline +
                 std::chrono::milliseconds(std::uint64_t{bytes} * 1000 / kLeastBodyRate);
    if (options_.look_at_head)
      if (const auto instead = options_.look_at_head(asked_of(from, reader.request()))) {
        (void)write(from, *instead, detail::form_of(reader));
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
    if (held_bytes_ <= options_.bytes_under_way ||
        from.reader().stage() == RequestReader::Stage::whole)
      return true;
    held_bytes_ -= std::exchange(from.counted_bytes, 0);  // it goes: others are not refused for it
    return false;
  }

  static Request asked_of(Connection& from, Request request) {
    request.client = from.client();
    request.is_open = [&from] { return !from.is_gone(); };
    return request;
  }

  // Whether another one may come.
  bool answer(Connection& from) {
    detail::AnswerForm form = detail::form_of(from.reader());
    const bool keeps_alive = from.reader().keeps_alive() && options_.idle > Duration::zero();
    const Request asked = asked_of(from, from.reader().take());
    from.body_begun = false;
    (void)count(from);
    const Answer told = answer_of(asked);
    form.goes_on = keeps_alive && !draining_;
    const bool written = write(from, told, form);
    from.since = now();
    from.until = from.since + (from.reader().is_empty() ? options_.idle : options_.deadline);
    return written && form.goes_on;
  }

  Answer answer_of(const Request& asked) const {
    try {
      return handler_(asked);
    } catch (const std::exception& thrown) {
      log::error("http", "an answer to " + asked.path + " failed: " + thrown.what());
      return refusal(asked, 500, "the answer could not be made; the node's log tells why");
    }
  }

  bool write(Connection& to, const Answer& answer, const detail::AnswerForm& form) const {
    return detail::write_answer(to, answer, form,
                                {now() + options_.answer_deadline, options_.deadline});
  }

  Answer refusal(const Request& request, int status, const std::string& why) const {
    if (options_.refuse) return options_.refuse(request, status, why);
    return {.status = status, .body = why + "\n"};
  }

  bool refuse(Connection& from, int status, const std::string& why) {
    (void)write(from, refusal(asked_of(from, from.reader().request()), status, why),
                detail::form_of(from.reader()));
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
    {
      std::lock_guard lock(mutex_);
      ++ended_;
    }
    from.until = now() + kRestPause;
    return from.throw_away();
  }

  const ServerOptions options_;
  const Handler handler_;
  const Opened opened_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::atomic<bool> draining_ = false;
  detail::OpenCount open_;
  detail::SlowReaders slow_readers_;
  std::size_t ended_ = 0, held_bytes_ = 0, free_threads_ = 0;  // ended: of the open ones
  std::deque<Owned> waiting_, back_;  // with something to do; to be watched again
  std::set<int> served_;              // file numbers
  std::vector<std::jthread> threads_;
  std::jthread watcher_;
};

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
