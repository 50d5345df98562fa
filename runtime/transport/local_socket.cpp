#include "runtime/transport/local_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>

#include "runtime/transport/detail/local_wire.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace gpunode::transport {

namespace detail {

// What Responders have said and the server's thread has yet to send. Outlives the server.
struct LocalOutbox {
  struct Item {
    std::shared_ptr<LocalReply> reply;
    char kind;
    std::string text;
  };
  std::mutex mutex;
  std::deque<Item> items;
  std::function<void()> wake;  // null: the server is closed
};

struct LocalReply : std::enable_shared_from_this<LocalReply> {
  std::shared_ptr<LocalOutbox> outbox;
  Bytes route;
  std::atomic<bool> gone{false};
  std::atomic<bool> finished{false};
  std::atomic<std::chrono::steady_clock::rep> tried{0};  // when it was last sent an empty reply

  ~LocalReply() {
    if (!finished.exchange(true)) push(std::make_shared<LocalReply>(outbox, route), kFinal, "");
  }
  LocalReply(std::shared_ptr<LocalOutbox> box, Bytes to)
      : outbox(std::move(box)), route(std::move(to)) {}

  static void push(std::shared_ptr<LocalReply> to, char kind, std::string text) {
    auto box = to->outbox;
    if (kind == kFinal) to->finished = true;
    std::lock_guard lock(box->mutex);
    if (!box->wake) return;
    box->items.push_back({std::move(to), kind, std::move(text)});
    box->wake();
  }
};

int try_local(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), kMaxLocalPath));
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int failed = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  int cause = failed ? errno : 0;
  ::close(fd);
  return cause == EAGAIN ? 0 : cause;  // a full backlog: somebody listens
}

namespace {

Result<void> check_path(const std::string& path) {
  if (path.size() <= kMaxLocalPath) return {};
  return {ErrorCode::invalid_argument,
          "the socket path " + path + " has " + std::to_string(path.size()) +
              " bytes and the system allows 107: choose a shorter --state directory"};
}

std::string hidden_name(const std::string& path) {
  static std::atomic<unsigned> next{0};
  std::string folder = path.substr(0, path.rfind('/') + 1);
  return folder + "." + std::to_string(::getpid()) + "." + std::to_string(next++);
}

class Server final : public LocalServer {
 public:
  Server(std::string path, RequestFn on_request)
      : path_(std::move(path)), on_request_(std::move(on_request)) {}
  ~Server() override { close(); }

  Result<void> start() {
    socket_ = Socket(control_context(), ZMQ_ROUTER);
    socket_.set(ZMQ_ROUTER_MANDATORY, 1);
    socket_.set(ZMQ_SNDHWM, 0);  // the reader is our own user
    socket_.set(ZMQ_BACKLOG, kLocalBacklog);
    socket_.set_wide(ZMQ_MAXMSGSIZE, kMaxLocalBytes);
    // Under another name first: the file is never seen open to others, and ZeroMQ, which removes
    // its file some time after the close, cannot remove that of our successor.
    std::string hidden = hidden_name(path_);
    if (auto fits = check_path(hidden); !fits) return fits;
    if (zmq_bind(socket_.raw(), ("ipc://" + hidden).c_str()) != 0) {
      return {errno == EACCES ? ErrorCode::permission_denied : ErrorCode::io_error,
              "cannot listen on " + path_ + ": " + zmq_strerror(errno)};
    }
    if (!ignore_routing_ids(socket_))
      return {ErrorCode::internal, "this libzmq cannot ignore what callers call themselves"};
    if (::chmod(hidden.c_str(), 0600) != 0 || ::rename(hidden.c_str(), path_.c_str()) != 0) {
      int cause = errno;
      ::unlink(hidden.c_str());
      return {ErrorCode::io_error, "cannot make " + path_ + ": " + std::strerror(cause)};
    }
    bound_ = true;
    outbox_->wake = [this] { reactor_.post([this] { send_replies(); }); };
    reactor_.watch(socket_.fd(), Reactor::Wanted::reading, [this] { serve(); });
    reactor_.post([this] { serve(); });
    reactor_.start();
    return {};
  }

  void close() override {
    {
      std::lock_guard lock(outbox_->mutex);
      outbox_->wake = nullptr;
    }
    reactor_.stop([this] {
      if (!socket_) return;
      closing_ = true;
      send_replies();
      // What was just sent still has to leave: closing waits for it in ZeroMQ's own thread.
      socket_.set(ZMQ_LINGER, 1'000);
      socket_.close();
    });
    if (bound_) ::unlink(path_.c_str());
    bound_ = false;
  }

 private:
  void serve() {
    for (;;) {
      Frames parts = socket_.receive(3);
      if (parts.empty()) {
        if (socket_.events() & ZMQ_POLLIN) continue;
        return;
      }
      if (parts.size() != 2) continue;
      auto reply = std::make_shared<LocalReply>(outbox_, to_bytes(parts[0].view()));
      on_request_(std::string(as_text(parts[1].view())), Responder(std::move(reply)));
    }
  }

  void send_replies() {
    std::deque<LocalOutbox::Item> items;
    {
      std::lock_guard lock(outbox_->mutex);
      items.swap(outbox_->items);
    }
    for (auto& item : items) {
      Frames out;
      out.emplace_back(item.reply->route);
      out.emplace_back(1 + item.text.size());
      out[1].data()[0] = std::byte(item.kind);
      std::memcpy(out[1].data() + 1, item.text.data(), item.text.size());
      if (socket_.send(out) != Sent::yes) item.reply->gone = true;
    }
    items.clear();
    if (!closing_ && (socket_.events() & ZMQ_POLLIN)) serve();
  }

  const std::string path_;
  const RequestFn on_request_;
  bool bound_ = false;
  bool closing_ = false;
  Socket socket_;
  std::shared_ptr<LocalOutbox> outbox_ = std::make_shared<LocalOutbox>();
  Reactor reactor_;
};

}  // namespace
}  // namespace detail

void Responder::partial(std::string text) const {
  if (!reply_->finished) detail::LocalReply::push(reply_, detail::kPartial, std::move(text));
}

void Responder::finish(std::string text) const {
  if (reply_->finished.exchange(true)) return;
  detail::LocalReply::push(reply_, detail::kFinal, std::move(text));
}

bool Responder::gone() const {
  if (reply_->gone) return true;
  std::lock_guard lock(reply_->outbox->mutex);
  return !reply_->outbox->wake;
}

bool Responder::is_awaited() const {
  constexpr std::chrono::steady_clock::duration kEvery = std::chrono::seconds(1);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  auto tried = reply_->tried.load();
  if (now - tried >= kEvery.count() && reply_->tried.compare_exchange_strong(tried, now))
    partial("");
  return !gone();
}

Result<std::unique_ptr<LocalServer>> LocalServer::open(const std::string& path,
                                                       RequestFn on_request) {
  if (auto fits = detail::check_path(path); !fits) return fits.error();
  if (detail::try_local(path) == 0) {
    return {ErrorCode::already_exists, "another node listens on " + path};
  }
  auto server = std::make_unique<detail::Server>(path, std::move(on_request));
  if (auto started = server->start(); !started) return started.error();
  return std::unique_ptr<LocalServer>(std::move(server));
}

}  // namespace gpunode::transport
