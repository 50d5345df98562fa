#include "runtime/transport/join_socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/acceptor.hpp"
#include "runtime/transport/detail/join_wire.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport {

namespace {

using namespace detail;

// How replies reach the socket's thread; outlives the socket.
struct ReplyGate {
  std::mutex mutex;
  std::function<void(std::uint64_t visitor, Bytes frame)> send;  // null: the socket is closed
};

// One connection.
struct Visitor {
  int fd = -1;
  std::uint64_t watch = 0;
  std::string address;
  Time until{};
  bool greeted = false;
  bool asking = false;   // its question has not been answered in full
  bool writing = false;  // the watch is for room to write
  Bytes in;              // at most a greeting and one frame
  Bytes out;
  std::size_t written = 0;
};

class Listener final : public JoinSocket {
 public:
  Listener(Callbacks callbacks, Limits limits)
      : callbacks_(std::move(callbacks)),
        limits_(std::move(limits)),
        quota_(limits_.connections, security::random_nonce()) {}
  ~Listener() override { close(); }

  Result<void> start(const std::string& endpoint) {
    auto listening = listen_tcp(endpoint);
    if (!listening) return listening.error().within("join port");
    endpoint_ = listening->endpoint;
    gate_->send = [this](std::uint64_t number, Bytes frame) {
      reactor_.post([this, number, frame = std::move(frame)] { answer(number, frame); });
    };
    door_.emplace(reactor_, *listening, limits_.from,
                  [this](int fd, const IpAddress& from) { admit(fd, from); });
    door_->start();
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
      while (!visitors_.empty()) drop(visitors_.begin()->first);
      door_.reset();
    });
  }

 private:
  void admit(int fd, const IpAddress& from) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    std::uint64_t number = next_number_++;
    Visitor& visitor = visitors_[number];
    visitor.fd = fd;
    visitor.address = from.text();
    visitor.until = reactor_.now() + limits_.life;
    visitor.out = to_bytes(as_bytes(kJoinGreeting));
    watch(number, visitor, false);
    if (const auto one = quota_.enter(number, from)) drop(*one);
    if (!sweeping_) sweep();
    flush(number);
  }

  void sweep() {
    sweeping_ = false;
    while (!visitors_.empty() && visitors_.begin()->second.until <= reactor_.now()) {
      drop(visitors_.begin()->first);
    }
    if (visitors_.empty()) return;
    sweeping_ = true;
    reactor_.after(visitors_.begin()->second.until - reactor_.now(), [this] { sweep(); });
  }

  void drop(std::uint64_t number) {
    auto found = visitors_.find(number);
    if (found == visitors_.end()) return;
    reactor_.unwatch(found->second.watch);
    quota_.leave(number);
    ::close(found->second.fd);
    visitors_.erase(found);
  }

  void watch(std::uint64_t number, Visitor& visitor, bool for_writing) {
    if (visitor.watch != 0) reactor_.unwatch(visitor.watch);
    visitor.writing = for_writing;
    const auto wanted = for_writing ? Reactor::Wanted::writing : Reactor::Wanted::reading;
    visitor.watch = reactor_.watch(visitor.fd, wanted, [this, number, for_writing] {
      for_writing ? flush(number) : read(number);
    });
  }

  void read(std::uint64_t number) {
    auto found = visitors_.find(number);
    if (found == visitors_.end()) return;
    Visitor& visitor = found->second;
    std::byte chunk[kJoinGreeting.size() + kJoinHeadBytes + kMaxJoinFrameBytes];
    auto got = ::recv(visitor.fd, chunk, sizeof chunk, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return drop(number);
    visitor.in.insert(visitor.in.end(), chunk, chunk + got);
    if (!take(number, visitor)) drop(number);
  }

  // False: this is nobody who joins, or one who asks again before the answer.
  bool take(std::uint64_t number, Visitor& visitor) {
    Bytes& in = visitor.in;
    if (!visitor.greeted) {
      std::size_t known = std::min(in.size(), kJoinGreeting.size());
      if (as_text(in).substr(0, known) != kJoinGreeting.substr(0, known)) return false;
      if (known < kJoinGreeting.size()) return true;
      visitor.greeted = true;
      in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(known));
    }
    if (visitor.asking) return in.empty();
    if (in.size() < kJoinHeadBytes) return true;
    std::uint32_t size = read_join_head(in);
    if (size > kMaxJoinFrameBytes || in.size() > kJoinHeadBytes + size) return false;
    if (in.size() < kJoinHeadBytes + size) return true;
    Bytes frame = to_bytes(ByteView(in).subspan(kJoinHeadBytes));
    in.clear();
    visitor.asking = true;
    if (callbacks_.may_speak && !callbacks_.may_speak(visitor.address)) return true;
    auto unused = std::make_shared<std::atomic<bool>>(true);
    callbacks_.on_frame(visitor.address, std::move(frame),
                        [gate = gate_, number, unused](Bytes reply) {
                          if (!unused->exchange(false)) return;
                          std::lock_guard lock(gate->mutex);
                          if (gate->send) gate->send(number, std::move(reply));
                        });
    return true;
  }

  void answer(std::uint64_t number, const Bytes& frame) {
    auto found = visitors_.find(number);
    if (found == visitors_.end()) return;  // one who went away gets nothing
    Bytes bytes = with_join_head(frame);
    found->second.out.insert(found->second.out.end(), bytes.begin(), bytes.end());
    found->second.asking = false;
    flush(number);
  }

  void flush(std::uint64_t number) {
    auto found = visitors_.find(number);
    if (found == visitors_.end()) return;
    Visitor& visitor = found->second;
    while (visitor.written < visitor.out.size()) {
      auto sent = ::send(visitor.fd, visitor.out.data() + visitor.written,
                         visitor.out.size() - visitor.written, MSG_NOSIGNAL);
      if (sent >= 0) {
        visitor.written += static_cast<std::size_t>(sent);
      } else if (errno == EAGAIN) {
        if (!visitor.writing) watch(number, visitor, true);  // and reads nothing meanwhile
        return;
      } else if (errno != EINTR) {
        return drop(number);
      }
    }
    visitor.out.clear();
    visitor.written = 0;
    if (visitor.writing) watch(number, visitor, false);
  }

  const Callbacks callbacks_;
  const Limits limits_;
  std::string endpoint_;
  std::optional<Acceptor> door_;
  std::map<std::uint64_t, Visitor> visitors_;  // by number: the oldest first
  security::AddressQuota quota_;
  std::uint64_t next_number_ = 1;
  bool sweeping_ = false;  // a timer is set
  std::shared_ptr<ReplyGate> gate_ = std::make_shared<ReplyGate>();
  Reactor reactor_;
};

}  // namespace

Result<std::unique_ptr<JoinSocket>> JoinSocket::listen(const std::string& endpoint,
                                                       Callbacks callbacks, Limits limits) {
  auto listener = std::make_unique<Listener>(std::move(callbacks), std::move(limits));
  if (auto started = listener->start(endpoint); !started) return started.error();
  return std::unique_ptr<JoinSocket>(std::move(listener));
}

}  // namespace gpunode::transport
