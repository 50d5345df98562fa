// Attacks on the three ports: raw frames on control by who has the keys, connections from all over
// 127/8 that say nothing, nonsense, or a byte now and then, and members that come and come.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "runtime/security/join_client.hpp"
#include "runtime/transport/detail/control_frame.hpp"
#include "runtime/transport/detail/join_wire.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "tests/hostile/attacks.hpp"

namespace gpunode::hostile {
namespace {

using transport::detail::Frame;
using transport::detail::Frames;

// A socket to `endpoint` from a source address of its own, on its way; -1: none.
int dial_from_anywhere(const std::string& endpoint, Rng& rng) {
  const auto place = transport::detail::parse_endpoint(endpoint);
  if (!place) return -1;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in from{}, to{};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(127u << 24 | static_cast<std::uint32_t>(rng.below(1u << 24)) | 1);
  to.sin_addr.s_addr = inet_addr(place->host.c_str());
  to.sin_port = htons(place->port);
  transport::detail::set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
      (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)) {
    if (fd >= 0) ::close(fd);
    return -1;
  }
  return fd;
}

std::string some_door(const Peer& peer, Rng& rng) {
  const auto& record = peer.record;
  const std::vector<std::string>* doors[] = {&record.control_endpoints, &record.bulk_endpoints,
                                             &record.join_endpoints};
  const auto& chosen = *doors[rng.below(3)];
  return chosen.empty() ? record.control_endpoints.front() : chosen.front();
}

// Frames that no link of ours sends, by a connection that the allow-list lets in: too long, of many
// parts, of no form, hellos without end; and connections that come and go.
class RawFrames : public Attack {
 public:
  explicit RawFrames(const AttackOptions& options)
      : options_(options), rng_(options.seed), context_(zmq_ctx_new()) {}
  ~RawFrames() override {
    sockets_.clear();
    kept_.clear();
    zmq_ctx_term(context_);
  }
  void step() override {
    if (sockets_.size() < 24 || rng_.chance(0.02)) open(sockets_);
    if (sockets_.size() > 24) sockets_.pop_front();
    if (kept_.size() < 4) open(kept_);
    Frames parts;
    const std::uint64_t kind = rng_.below(100);
    if (kind < 2) {
      parts.emplace_back(std::size_t{3} << 20);
    } else if (kind < 20) {
      for (std::uint64_t part = 0; part <= rng_.below(50); ++part) parts.emplace_back(noise(100));
    } else if (kind < 60) {
      transport::detail::Envelope hello;
      hello.kind = static_cast<transport::detail::Kind>(1 + rng_.below(8));
      hello.session = rng_.next();
      hello.boot = rng_.next();
      hello.greeting = rng_.below(5);
      parts.push_back(pack_frame(hello, noise(60)));
    } else {
      parts.emplace_back(noise(400));
    }
    auto& sockets = parts.size() > 1 ? kept_ : sockets_;
    if (sockets[rng_.below(sockets.size())].send(parts) == transport::detail::Sent::yes) ++sent_;
  }
  std::uint64_t done() const override { return sent_; }

 private:
  void open(std::deque<transport::detail::Socket>& sockets) {
    const Peer& peer = options_.member->some_peer(rng_);
    transport::detail::Socket& socket = sockets.emplace_back(context_, ZMQ_DEALER);
    const auto& identity = options_.member->identity();
    socket.set(ZMQ_LINGER, 0);
    socket.set(ZMQ_SNDHWM, 100);
    socket.set_bytes(ZMQ_CURVE_SERVERKEY, peer.curve);
    socket.set_bytes(ZMQ_CURVE_PUBLICKEY, identity.curve_key().value);
    socket.set_bytes(ZMQ_CURVE_SECRETKEY, identity.curve_secret().view());
    // libzmq's finding 5: a routing id of one's own choice.
    Bytes id = noise(4);
    id.insert(id.begin(), std::byte{1});
    socket.set_bytes(ZMQ_ROUTING_ID, id);
    (void)socket.connect(peer.record.control_endpoints.front());
  }
  Bytes noise(std::size_t most) {
    Bytes bytes(1 + rng_.below(most));
    for (std::byte& one : bytes) one = static_cast<std::byte>(rng_.next());
    return bytes;
  }
  const AttackOptions options_;
  Rng rng_;
  void* context_;
  std::deque<transport::detail::Socket> sockets_;
  // For messages of many parts: a libzmq whose socket is closed within one may abort
  // (session_base.cpp:260), and that would be this process.
  std::deque<transport::detail::Socket> kept_;
  std::uint64_t sent_ = 0;
};

class Flood : public Attack {
 public:
  explicit Flood(const AttackOptions& options) : options_(options), rng_(options.seed) {}
  ~Flood() override {
    for (const int fd : held_) ::close(fd);
  }
  void step() override {
    const int fd = dial_from_anywhere(some_door(options_.member->some_peer(rng_), rng_), rng_);
    if (fd < 0) return;
    ++opened_;
    held_.push_back(fd);
    // Some say a little, and go on as slowly as can be.
    for (int more = 0; more < 3 && !held_.empty(); ++more)
      say_something(held_[rng_.below(held_.size())]);
    if (held_.size() > 700) {
      ::close(held_.front());
      held_.pop_front();
    }
  }
  std::uint64_t done() const override { return opened_; }

 private:
  void say_something(int fd) {
    constexpr std::string_view kBeginnings[] = {transport::detail::kJoinGreeting, "GPBT",
                                                "\xff\0\0\0\0\0\0\0\1\x7f\3\1",
                                                "GET / HTTP/1.1\r\n"};
    std::string text(1 + rng_.below(4), 'x');
    if (rng_.chance(0.3)) text = kBeginnings[rng_.below(4)];
    (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const AttackOptions options_;
  Rng rng_;
  std::deque<int> held_;
  std::uint64_t opened_ = 0;
};

// Identities without end join by tokens that they have, each from an address of its own.
class Churn : public Attack {
 public:
  explicit Churn(const AttackOptions& options) : options_(options), rng_(options.seed) {}
  void step() override {
    if (options_.tokens.empty()) return;
    auto token = security::JoinToken::parse(options_.tokens[rng_.below(options_.tokens.size())]);
    if (!token) return;
    const security::Identity identity = security::Identity::create();
    auto client =
        security::JoinClient::create(identity, std::move(*token), {"sybil", {}, false, {}}, {});
    if (!client) return;
    auto action = client->on_start();
    int fd = -1;
    while (!client->finished()) {
      if (std::holds_alternative<security::JoinClient::Dial>(action)) {
        if (fd >= 0) ::close(fd);
        fd = dial_from_anywhere(client->endpoint(), rng_);
        std::array<std::byte, 8> greeting;
        if (put(fd, as_bytes(transport::detail::kJoinGreeting)) && get(fd, greeting))
          action = client->on_dialled();
        else
          action = client->on_dial_failed({ErrorCode::timeout, "no greeting"});
      } else {
        const auto answer = ask(fd, std::get<security::JoinClient::Ask>(action).frame);
        action = answer ? client->on_answer(SystemClock().wall(), *answer)
                        : client->on_no_answer({ErrorCode::timeout, "no answer"});
      }
    }
    if (fd >= 0) ::close(fd);
    if (std::holds_alternative<security::JoinClient::Joined>(action)) ++joined_;
  }
  std::uint64_t done() const override { return joined_; }

 private:
  static bool ready(int fd, short events) {
    pollfd one{fd, events, 0};
    return fd >= 0 && ::poll(&one, 1, 3000) == 1;
  }
  static bool put(int fd, ByteView bytes) {
    return ready(fd, POLLOUT) && ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                                     static_cast<ssize_t>(bytes.size());
  }
  static bool get(int fd, MutableByteView target) {
    for (std::size_t at = 0; at < target.size();) {
      if (!ready(fd, POLLIN)) return false;
      const ssize_t got = ::recv(fd, target.data() + at, target.size() - at, 0);
      if (got <= 0) return false;
      at += static_cast<std::size_t>(got);
    }
    return true;
  }
  static std::optional<Bytes> ask(int fd, ByteView frame) {
    std::array<std::byte, transport::detail::kJoinHeadBytes> head;
    if (!put(fd, transport::detail::with_join_head(frame)) || !get(fd, head)) return std::nullopt;
    const std::uint32_t size = transport::detail::read_join_head(head);
    if (size > transport::detail::kMaxJoinAnswerBytes) return std::nullopt;
    Bytes answer(size);
    if (!get(fd, answer)) return std::nullopt;
    return answer;
  }
  const AttackOptions options_;
  Rng rng_;
  std::uint64_t joined_ = 0;
};

}  // namespace

std::unique_ptr<Attack> make_frames(const AttackOptions& options) {
  return std::make_unique<RawFrames>(options);
}
std::unique_ptr<Attack> make_flood(const AttackOptions& options) {
  return std::make_unique<Flood>(options);
}
std::unique_ptr<Attack> make_churn(const AttackOptions& options) {
  return std::make_unique<Churn>(options);
}

}  // namespace gpunode::hostile
