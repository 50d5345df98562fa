#include "runtime/transport/join_socket.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "runtime/transport/detail/join_wire.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport {
namespace {

std::uint16_t port_of(const JoinSocket& socket) {
  return detail::parse_endpoint(socket.endpoint())->port;
}

std::unique_ptr<JoinSocket> echo(JoinSocket::Limits limits = {}) {
  JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [](const std::string& address, Bytes frame, JoinSocket::Reply reply) {
    std::string text = address + " " + std::string(as_text(frame));
    reply(to_bytes(as_bytes(text)));
  };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks), limits);
  EXPECT_TRUE(socket) << socket.error().message();
  return socket ? std::move(*socket) : nullptr;
}

// A plain TCP listener that says `greeting` to whoever comes, and nothing else.
class Stranger {
 public:
  explicit Stranger(std::string greeting) : greeting_(std::move(greeting)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (;;) {
        int client = ::accept(listener_, nullptr, nullptr);
        if (client < 0) return;
        [[maybe_unused]] auto sent =
            ::send(client, greeting_.data(), greeting_.size(), MSG_NOSIGNAL);
        clients_.push_back(client);
      }
    });
  }
  ~Stranger() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (int client : clients_) ::close(client);
    ::close(listener_);
  }
  std::uint16_t port() const { return port_; }

 private:
  std::string greeting_;
  int listener_;
  std::uint16_t port_ = 0;
  std::vector<int> clients_;
  std::thread thread_;
};

TEST(JoinSocketTest, AFrameIsAnsweredAndItsAddressIsKnown) {
  auto socket = echo();
  auto connection = JoinConnection::dial("127.0.0.1", port_of(*socket));
  ASSERT_TRUE(connection) << connection.error().message();
  for (std::string text : {"one", "two"}) {
    auto answer = (*connection)->ask(as_bytes(text), std::chrono::seconds(10));
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(as_text(*answer), "127.0.0.1 " + text);
  }
}

TEST(JoinSocketTest, AReplyMayComeLaterFromAnotherThread) {
  std::thread later;
  JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [&](const std::string&, Bytes frame, JoinSocket::Reply reply) {
    later = std::thread([frame = std::move(frame), reply] { reply(frame); });
  };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
  ASSERT_TRUE(socket);
  auto connection = JoinConnection::dial("127.0.0.1", port_of(**socket));
  ASSERT_TRUE(connection);
  auto answer = (*connection)->ask(as_bytes("x"), std::chrono::seconds(10));
  later.join();
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(as_text(*answer), "x");
}

TEST(JoinSocketTest, ANameThatDoesNotResolveIsNotFound) {
  auto connection = JoinConnection::dial("no-such-host.invalid", 7603);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, ErrorCode::not_found);
  EXPECT_NE(connection.error().detail.find("no-such-host.invalid"), std::string::npos);
}

TEST(JoinSocketTest, AShutPortIsUnavailable) {
  std::uint16_t port;
  {
    Stranger stranger("");
    port = stranger.port();
  }
  auto connection = JoinConnection::dial("127.0.0.1", port);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, ErrorCode::unavailable);
  EXPECT_EQ(tcp_reachable("tcp://127.0.0.1:" + std::to_string(port)).error().code,
            ErrorCode::unavailable);
}

TEST(JoinSocketTest, AForeignServiceIsToldFromAGpunode) {
  for (std::string greeting : {"SSH-2.0-OpenSSH_9.2\r\n", "", "HTTP/1.1 400 Bad Request\r\n\r\n"}) {
    Stranger stranger(greeting);
    auto connection =
        JoinConnection::dial("127.0.0.1", stranger.port(), std::chrono::milliseconds(300));
    ASSERT_FALSE(connection) << greeting;
    EXPECT_EQ(connection.error().code, ErrorCode::protocol_mismatch) << greeting;
  }
}

TEST(JoinSocketTest, AFrameOverTheLimitIsRefusedBeforeItLeaves) {
  std::atomic<int> frames{0};
  JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [&](const std::string&, Bytes, JoinSocket::Reply) { ++frames; };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
  ASSERT_TRUE(socket);
  auto connection = JoinConnection::dial("127.0.0.1", port_of(**socket));
  ASSERT_TRUE(connection);
  auto answer = (*connection)->ask(Bytes(kMaxJoinFrameBytes + 1), std::chrono::seconds(1));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(frames, 0);
}

TEST(JoinSocketTest, ASilentConnectionIsDroppedAndSoIsOneOfTooMany) {
  JoinSocket::Limits limits;
  limits.connections = {.all = 2, .of_address = 2, .of_network = 2};
  limits.life = std::chrono::milliseconds(200);
  auto socket = echo(limits);
  std::vector<pollfd> silent;
  for (int i = 0; i < 4; ++i) {
    auto address = detail::numeric_address({"127.0.0.1", port_of(*socket)});
    int fd = detail::begin_connect(*address);
    ASSERT_GE(fd, 0);
    silent.push_back({fd, POLLRDHUP, 0});
  }
  for (pollfd& connection : silent) {
    EXPECT_EQ(::poll(&connection, 1, 10'000), 1) << "still open";
    ::close(connection.fd);
  }
}

TEST(JoinSocketTest, AFloodOfSilentConnectionsFromOneAddressKeepsNobodyElseOut) {
  auto socket = echo();
  std::vector<int> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6);
    ASSERT_EQ(::bind(flood.back(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
    auto address = detail::numeric_address({"127.0.0.1", port_of(*socket)});
    ASSERT_EQ(::connect(flood.back(), address->raw(), address->size), 0);
  }
  auto honest = JoinConnection::dial("127.0.0.1", port_of(*socket));
  ASSERT_TRUE(honest) << honest.error().message();
  EXPECT_TRUE((*honest)->ask(as_bytes("x"), std::chrono::seconds(10)));
  // All of one address but its share were hung up on.
  std::size_t open = 0;
  for (int fd : flood) {
    std::byte greeting[16];
    ssize_t got;
    do got = ::recv(fd, greeting, sizeof greeting, MSG_DONTWAIT);
    while (got > 0);
    open += got < 0 && errno == EAGAIN;
    ::close(fd);
  }
  EXPECT_LE(open, JoinSocket::Limits().connections.of_address);
}

TEST(JoinSocketTest, WhoComesFromElsewhereThanItMayIsHungUpOn) {
  JoinSocket::Limits limits;
  limits.from = *IpRanges::parse({"127.0.0.8/30"});
  auto socket = echo(limits);
  const auto heard = [&](unsigned last) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | last);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
    auto address = detail::numeric_address({"127.0.0.1", port_of(*socket)});
    EXPECT_EQ(::connect(fd, address->raw(), address->size), 0);
    std::byte greeting[16];
    const auto got = ::recv(fd, greeting, sizeof greeting, 0);
    ::close(fd);
    return got > 0;
  };
  EXPECT_TRUE(heard(9));
  EXPECT_FALSE(heard(7));
  EXPECT_TRUE(heard(1)) << "this machine itself";
}

TEST(JoinSocketTest, GarbageDisturbsNobodyWhoJoins) {
  auto socket = echo();
  auto honest = JoinConnection::dial("127.0.0.1", port_of(*socket));
  ASSERT_TRUE(honest) << honest.error().message();
  Rng rng(1);
  auto address = detail::numeric_address({"127.0.0.1", port_of(*socket)});
  for (int attempt = 0; attempt < 40; ++attempt) {
    std::string bytes;
    if (attempt % 2 > 0) {  // a good greeting first
      bytes = detail::kJoinGreeting;
    }
    std::size_t noise = rng.below(9'000);
    for (std::size_t i = 0; i < noise; ++i) bytes.push_back(static_cast<char>(rng.next()));
    int fd = detail::begin_connect(*address);
    ASSERT_GE(fd, 0);
    pollfd ready{fd, POLLOUT, 0};
    ::poll(&ready, 1, 1'000);
    [[maybe_unused]] auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::close(fd);
  }
  auto answer = (*honest)->ask(as_bytes("x"), std::chrono::seconds(10));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(as_text(*answer), "127.0.0.1 x");
}

TEST(JoinSocketTest, WhoMayNotSpeakGetsNoAnswer) {
  std::atomic<int> frames{0};
  JoinSocket::Callbacks callbacks;
  callbacks.may_speak = [](const std::string&) { return false; };
  callbacks.on_frame = [&](const std::string&, Bytes, JoinSocket::Reply) { ++frames; };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
  ASSERT_TRUE(socket);
  auto connection = JoinConnection::dial("127.0.0.1", port_of(**socket));
  ASSERT_TRUE(connection);
  auto answer = (*connection)->ask(as_bytes("x"), std::chrono::milliseconds(100));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::timeout);
  EXPECT_EQ(frames, 0);
}

// A blocking connection that can say anything.
class RawVisitor {
 public:
  explicit RawVisitor(const JoinSocket& socket) {
    auto address = detail::numeric_address({"127.0.0.1", port_of(socket)});
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd_, address->raw(), address->size), 0);
  }
  ~RawVisitor() { ::close(fd_); }
  void say(std::string_view bytes) {
    [[maybe_unused]] auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // As many bytes as there are before the end, at most `count`.
  std::string hear(std::size_t count) {
    std::string bytes(count, '\0');
    std::size_t done = 0;
    while (done < count) {
      auto got = ::recv(fd_, bytes.data() + done, count - done, 0);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  int fd_;
};

TEST(JoinSocketTest, AQuestionInSingleBytesIsAnsweredAsAWholeOneIs) {
  auto socket = echo();
  RawVisitor visitor(*socket);
  EXPECT_EQ(visitor.hear(8), detail::kJoinGreeting);
  std::string question = std::string(detail::kJoinGreeting) + std::string("\x02\0\0\0hi", 6);
  for (char byte : question) visitor.say({&byte, 1});
  EXPECT_EQ(visitor.hear(16), std::string("\x0c\0\0\0"
                                          "127.0.0.1 hi",
                                          16));
}

TEST(JoinSocketTest, WhoSpeaksOtherwiseIsDropped) {
  JoinSocket::Limits limits;
  limits.life = std::chrono::hours(1);
  auto socket = echo(limits);
  std::string greeting{detail::kJoinGreeting};
  for (const std::string& speech :
       {std::string("GET / HTTP/1.1\r\n"), std::string("gpujoin\x02"),
        greeting + std::string("\x01\x10\0\0", 4),                // a frame of 4097 bytes
        greeting + std::string("\xff\xff\xff\xff", 4),            // and of 4 GiB
        greeting + std::string("\x01\0\0\0a\x01\0\0\0b", 10)}) {  // two questions at once
    RawVisitor visitor(*socket);
    visitor.say(speech);
    EXPECT_LT(visitor.hear(100).size(), 100u) << "ends";
  }
}

TEST(JoinSocketTest, AnAnswerLargerThanTheNetworkHoldsArrivesWhole) {
  JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [](const std::string&, Bytes, JoinSocket::Reply reply) {
    reply(Bytes(detail::kMaxJoinAnswerBytes, std::byte{7}));
  };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
  ASSERT_TRUE(socket);
  RawVisitor slow(**socket);
  slow.say(std::string(detail::kJoinGreeting) + std::string(4, '\0'));
  auto quick = JoinConnection::dial("127.0.0.1", port_of(**socket));
  ASSERT_TRUE(quick);
  for (int round = 0; round < 3; ++round) {
    auto answer = (*quick)->ask(as_bytes("x"), std::chrono::seconds(10));
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(*answer, Bytes(detail::kMaxJoinAnswerBytes, std::byte{7}));
  }
  std::string all = slow.hear(8 + 4 + detail::kMaxJoinAnswerBytes);
  EXPECT_EQ(all.size(), 8 + 4 + detail::kMaxJoinAnswerBytes);
  EXPECT_EQ(all.back(), '\x07');
}

TEST(JoinSocketTest, ALateAnswerDoesNotPassForThatOfTheNextQuestion) {
  std::mutex mutex;
  std::vector<JoinSocket::Reply> replies;
  JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [&](const std::string&, Bytes, JoinSocket::Reply reply) {
    std::lock_guard lock(mutex);
    replies.push_back(std::move(reply));
  };
  auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
  ASSERT_TRUE(socket);
  auto connection = JoinConnection::dial("127.0.0.1", port_of(**socket));
  ASSERT_TRUE(connection);
  auto first = (*connection)->ask(as_bytes("one"), std::chrono::milliseconds(50));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::timeout);
  {
    std::lock_guard lock(mutex);
    for (auto& reply : replies) reply(to_bytes(as_bytes("answer to one")));
  }
  auto second = (*connection)->ask(as_bytes("two"), std::chrono::seconds(10));
  ASSERT_FALSE(second) << as_text(*second);
  EXPECT_EQ(second.error().code, ErrorCode::peer_lost);
}

TEST(JoinSocketTest, ATakenPortIsNamed) {
  auto socket = echo();
  auto second = JoinSocket::listen(socket->endpoint(), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_NE(second.error().detail.find(std::to_string(port_of(*socket))), std::string::npos);
}

TEST(JoinSocketTest, AnOpenPortIsReachable) {
  auto socket = echo();
  EXPECT_TRUE(tcp_reachable(socket->endpoint()));
  EXPECT_EQ(tcp_reachable("nonsense").error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::transport
