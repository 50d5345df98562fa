// Strangers at all three ports, speaking every dialect of ZMTP, whole, cut short and broken off: no
// node may end by what they send, nor while its ports close under them, and no session may break.
// --gtest_shuffle --gtest_random_seed=N lets them say other things.
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/rng.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/join_socket.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

std::string zeros(std::size_t count) {
  return std::string(count, '\0');
}

std::string noise(Rng& rng, std::size_t below) {
  std::string bytes(rng.below(below), '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.next());
  return bytes;
}

// ZMTP 3: 64 bytes.
std::string greeting(int minor, std::string mechanism) {
  mechanism.resize(20, '\0');
  std::string version{'\x03', static_cast<char>(minor)};
  return "\xff" + zeros(8) + "\x7f" + version + mechanism + zeros(32);
}

std::string frame(int flags, const std::string& body) {
  std::string head{static_cast<char>(flags | (body.size() > 255 ? 2 : 0))};
  std::size_t size = body.size();
  for (int shift = size > 255 ? 56 : 0; shift >= 0; shift -= 8) {
    head.push_back(static_cast<char>(size >> shift));
  }
  return head + body;
}

std::string command(const std::string& name, const std::string& data) {
  return frame(4, static_cast<char>(name.size()) + name + data);
}

std::string repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string kReady =
    command("READY", std::string("\x0bSocket-Type\0\0\0\x06", 16) + "DEALER");
const std::string kPlainHello = command("HELLO", std::string("\x07gpunode\x05guess"));
const std::string kShortPing = command("PING", "");
const std::string kPing = command("PING", std::string("\0\x01", 2));

std::string curve_hello(Rng& rng) {
  std::string body = std::string("\x01\0", 2) + zeros(72);
  while (body.size() < 194) body.push_back(static_cast<char>(rng.next()));
  return command("HELLO", body);
}

// What one stranger has to say.
std::string speech(Rng& rng) {
  std::string signature = "\xff" + zeros(8) + "\x7f";
  int minor = static_cast<int>(rng.below(2));
  switch (rng.below(22)) {
    case 0:
      return "";
    case 1:
      return noise(rng, 9'000);
    case 2:  // ZMTP 1, without a version: an empty name, then messages of one byte
      return std::string("\x01\0", 2) + repeat(std::string("\x02\0x", 3), 50);
    case 3:  // its name has another part, or never ends
      return std::string("\x03\x01me", 4) + std::string("\x02\x01x", 3);
    case 4:  // ZMTP 1 with a version
      return signature + std::string("\0\x05", 2) + std::string("\x01\0\x02\0x", 5);
    case 5:  // ZMTP 2
      return signature + std::string("\x01\x05", 2) + frame(0, "me") + repeat(frame(1, "x"), 9);
    case 6:
      return signature + std::string("\x01\x05", 2) + frame(4, "me") + noise(rng, 200);
    case 7:  // more messages than a pipe holds, and a PING with nothing in it
      return greeting(minor, "NULL") + kReady + repeat(frame(0, "x"), 1'500) +
             repeat(kShortPing, 40) + repeat(kPing, 40);
    case 8:
      return greeting(minor, "NULL") + kReady + repeat(frame(1, "part"), 40);
    case 9:
      return greeting(minor, "NULL") + command("READY", noise(rng, 80));
    case 10:
      return greeting(minor, "PLAIN") + kPlainHello;
    case 11:  // does not wait for the answer
      return greeting(minor, "PLAIN") + kPlainHello + command("INITIATE", "") + frame(0, "x");
    case 12:
      return greeting(minor, "PLAIN") + command("HELLO", noise(rng, 60));
    case 13:
      return greeting(minor, "CURVE") + curve_hello(rng) + command("INITIATE", noise(rng, 600));
    case 14:
      return greeting(minor, "CURVE") + command("INITIATE", noise(rng, 300));
    case 15:  // a frame that is announced as huge
      return greeting(minor, rng.below(2) > 0 ? "CURVE" : "PLAIN") + "\x06" + zeros(3) +
             noise(rng, 4'000);
    case 16:
      return greeting(minor, rng.below(2) > 0 ? "CURVE" : "PLAIN") + noise(rng, 3'000);
    case 17:  // as one who joins
      return "gpujoin\x01" + noise(rng, 5'000);
    case 18:  // asks again and again, and reads no answer
      return "gpujoin\x01" + repeat(std::string("\x03\0\0\0ask", 7), 200);
    case 19:  // a guessed bulk ticket, and what would come behind it
      return std::string("GPBT\1\0\x2b\0", 8) + noise(rng, 6'000);
    case 20:
      return std::string("GPBT\1\0\xff\xff", 8) + zeros(56) + "GPBK" + noise(rng, 300);
    default:
      return greeting(static_cast<int>(rng.below(256)), "GSSAPI") + noise(rng, 300);
  }
}

class Stranger {
 public:
  Stranger(const std::string& endpoint, Rng& rng) : rng_(rng), speech_(speech(rng)) {
    fd_ = detail::begin_connect(*detail::numeric_address(*detail::parse_endpoint(endpoint)));
    pieces_ = rng.below(3);
    if (rng.below(3) == 0) speech_.resize(rng.below(speech_.size() + 1));
  }
  Stranger(Stranger&& other) noexcept
      : rng_(other.rng_),
        speech_(std::move(other.speech_)),
        said_(other.said_),
        pieces_(other.pieces_),
        fd_(std::exchange(other.fd_, -1)) {}
  ~Stranger() {
    if (fd_ >= 0) ::close(fd_);
  }

  // False: has said all and is gone.
  bool speak() {
    if (fd_ < 0) return false;
    if (said_ < speech_.size()) {
      std::size_t left = speech_.size() - said_;
      std::size_t piece = pieces_ == 0 ? left : pieces_ == 1 ? 1 + rng_.below(4) : rng_.below(500);
      auto sent = ::send(fd_, speech_.data() + said_, std::min(left, piece), MSG_NOSIGNAL);
      if (sent >= 0) said_ += static_cast<std::size_t>(sent);
      if (sent >= 0 || errno == EAGAIN || errno == ENOTCONN) return true;
    }
    return leave();
  }

 private:
  bool leave() {
    std::uint64_t how = rng_.below(8);
    if (how < 3) return true;  // lingers, and says nothing more
    if (how == 3) {
      ::shutdown(fd_, SHUT_WR);
      return true;
    }
    if (how > 5) {  // by a reset
      linger at_once{1, 0};
      ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    ::close(std::exchange(fd_, -1));
    return false;
  }

  Rng& rng_;
  std::string speech_;
  std::size_t said_ = 0;
  std::uint64_t pieces_;
  int fd_;
};

// One who speaks through ZeroMQ, so that its handshake gets as far as the door.
detail::Socket knocker(const std::string& endpoint, bool curve, const CurveKey& server) {
  detail::Socket socket(detail::control_context(), ZMQ_DEALER);
  if (curve) {
    KeyPair keys = KeyPair::create();
    socket.set_bytes(ZMQ_CURVE_SERVERKEY, server);
    socket.set_bytes(ZMQ_CURVE_PUBLICKEY, keys.open);
    socket.set_bytes(ZMQ_CURVE_SECRETKEY, keys.secret);
  } else {
    socket.set_bytes(ZMQ_PLAIN_USERNAME, as_bytes("gpunode"));
    socket.set_bytes(ZMQ_PLAIN_PASSWORD, as_bytes("guess"));
  }
  socket.set(ZMQ_RECONNECT_IVL, -1);
  socket.connect(endpoint);
  return socket;
}

class StrangerTest : public ::testing::Test {
 protected:
  std::unique_ptr<JoinSocket> open_join() {
    JoinSocket::Callbacks callbacks;
    callbacks.on_frame = [](const std::string&, Bytes frame, JoinSocket::Reply reply) {
      reply(std::move(frame));
    };
    auto socket = JoinSocket::listen("tcp://127.0.0.1:0", std::move(callbacks));
    EXPECT_TRUE(socket) << socket.error().message();
    return socket ? std::move(*socket) : nullptr;
  }

  // Lets `count` strangers speak by turns, for `turns` turns; some are still at it then.
  std::vector<Stranger> crowd(const std::vector<std::string>& endpoints, int count, int turns) {
    std::vector<Stranger> strangers;
    for (int i = 0; i < count; ++i) {
      strangers.emplace_back(endpoints[rng_.below(endpoints.size())], rng_);
    }
    for (int turn = 0; turn < turns; ++turn) {
      for (Stranger& stranger : strangers) stranger.speak();
    }
    return strangers;
  }

  Rng rng_{1 + static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed())};
  MeshNet net_;
};

TEST_F(StrangerTest, NoPortDiesOfThemAndNoSessionBreaks) {
  Journal journals[2];
  auto one = net_.open_mesh(1, 1, journals[0].events(), {});
  auto two = net_.open_mesh(2, 1, journals[1].events(), {});
  auto join = open_join();
  one->set_peer(net_.address(2));
  two->set_peer(net_.address(1));
  ASSERT_TRUE(send_when_up(*two, journals[1], node_id(1), Lane::bulk, text_message(0, "open")));
  ASSERT_TRUE(journals[0].wait_messages(1));
  std::string control = one->control_endpoints()[0], bulk = one->bulk_endpoints()[0];
  CurveKey server = net_.address(1).curve_public_key;
  std::uint64_t sent = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<detail::Socket> knockers;
    for (int i = 0; i < 4; ++i) {
      knockers.push_back(knocker(i % 2 > 0 ? control : bulk, i % 2 > 0, server));
    }
    auto strangers = crowd({control, bulk, join->endpoint()}, 30, 20);
    ++sent;
    ASSERT_TRUE(two->send(node_id(1), Lane::control, text_message(sent, "x")));
    ASSERT_TRUE(two->send(node_id(1), Lane::bulk, text_message(sent, "x", 5'000)));
    ASSERT_TRUE(journals[0].wait_messages(1 + 2 * sent));
  }
  for (Lane lane : {Lane::control, Lane::bulk}) {
    EXPECT_EQ(journals[0].count(node_id(2), lane, LinkState::reset), 0u);
  }
  auto port = detail::parse_endpoint(join->endpoint())->port;
  auto honest = JoinConnection::dial("127.0.0.1", port);
  ASSERT_TRUE(honest) << honest.error().message();
  EXPECT_TRUE((*honest)->ask(as_bytes("x"), std::chrono::seconds(10)));
}

TEST_F(StrangerTest, APortThatClosesInTheMidstOfThemEndsNothingElse) {
  for (int round = 0; round < 60; ++round) {
    Journal journal;
    auto link = net_.open_mesh(1, 1, journal.events(), {});
    auto join = open_join();
    std::vector<std::string> endpoints{link->control_endpoints()[0], link->bulk_endpoints()[0],
                                       join->endpoint()};
    std::vector<detail::Socket> knockers;
    for (int i = 0; i < 6; ++i) {
      bool curve = i % 2 > 0;
      knockers.push_back(
          knocker(endpoints[curve ? 0 : 1], curve, net_.address(1).curve_public_key));
    }
    auto strangers = crowd(endpoints, 24, static_cast<int>(rng_.below(6)));
    join->close();
    link->close();
    for (Stranger& stranger : strangers) stranger.speak();
  }
}

}  // namespace
}  // namespace gpunode::transport::test
