// Strangers and liars at the ports of a MeshLink: what they send disturbs nobody, and what they hold is
// bounded.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "runtime/base/rng.hpp"
#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "tests/unit/runtime/transport/mesh_link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

TEST_F(MeshLinkTest, ARoutingIdOfAPeersChoiceDoesNotMakeItAnother) {
  auto one = start(1);
  auto two = start(2);
  introduce(1, *one, 2, *two);
  // Node 3 is admitted and known, but speaks through a socket of its own making, with a chosen id.
  one->link->set_peer(net_.address(3));
  detail::Socket socket = by_hand(3, 1, *one, node_id(2).text());
  detail::Envelope hello;
  hello.kind = detail::Kind::hello;
  hello.session = 77;
  hello.boot = 1;
  // It is not taken before set_peer() has got through to the lane's thread.
  bool up = false;
  detail::Frames frames;
  for (hello.greeting = 1; !up && hello.greeting < 100; ++hello.greeting) {
    frames = frames_of(hello);
    ASSERT_EQ(socket.send(frames), detail::Sent::yes);
    up = one->journal.wait(
        [](const auto& events) {
          return Journal::count_in(events, node_id(3), Lane::control, LinkState::up) > 0;
        },
        std::chrono::milliseconds(200));
  }
  ASSERT_TRUE(up);
  detail::Envelope data;
  data.kind = detail::Kind::data;
  data.session = 77;
  data.seq = 1;
  data.topic = 99;  // unknown: dropped, and no harm done
  frames = frames_of(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  data.topic = static_cast<std::uint16_t>(Topic::job);
  data.seq = 2;
  frames = frames_of(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  ASSERT_TRUE(one->journal.wait_messages(1));
  EXPECT_EQ(one->journal.messages()[0].from, node_id(3));

  // A gap in the sequence ends that session, and only that one. What comes by it later is told of, as
  // is what cannot be read.
  data.seq = 4;
  frames = frames_of(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  ASSERT_TRUE(one->journal.wait_state(node_id(3), Lane::control, LinkState::reset));
  bool dropped = false;  // what was under way as the session ended may be lost
  for (int tries = 0; !dropped && tries < 100; ++tries) {
    frames = frames_of(data);
    ASSERT_EQ(socket.send(frames), detail::Sent::yes);
    dropped = one->journal.wait_dropped(node_id(3), Dropped::out_of_session, 2,
                                        std::chrono::milliseconds(200));
  }
  ASSERT_TRUE(dropped);
  EXPECT_TRUE(one->journal.wait_dropped(node_id(3), Dropped::of_later_version, 1));
  frames.clear();
  frames.emplace_back(Bytes(40));
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  ASSERT_TRUE(one->journal.wait_dropped(node_id(3), Dropped::unreadable, 1));
  ASSERT_TRUE(two->link->send(node_id(1), Lane::control, text_message(9, "still here")));
  ASSERT_TRUE(one->journal.wait_messages(2));
  EXPECT_EQ(one->journal.messages()[1].from, node_id(2));
  EXPECT_EQ(one->journal.count(node_id(2), Lane::control, LinkState::reset), 0u);
}

TEST_F(MeshLinkTest, GarbageOnThePortsDisturbsNoSession) {
  auto one = start(1);
  auto two = start(2);
  introduce(1, *one, 2, *two);
  ASSERT_TRUE(two->link->send(node_id(1), Lane::bulk, text_message(0, "open")));
  ASSERT_TRUE(one->journal.wait_messages(1));
  Rng rng(1);
  for (const std::string& endpoint :
       {one->link->control_endpoints()[0], one->link->bulk_endpoints()[0]}) {
    for (int attempt = 0; attempt < 60; ++attempt) {
      std::string bytes;
      if (attempt % 3 > 0) {  // a good greeting first
        bytes = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0", 12);
        bytes += attempt % 3 == 1 ? std::string("CURVE\0", 6) : std::string("PLAIN\0", 6);
        bytes.resize(64, '\0');
      }
      std::size_t noise = rng.below(3'000);
      for (std::size_t i = 0; i < noise; ++i) bytes.push_back(static_cast<char>(rng.next()));
      int fd = raw_connection(endpoint);
      ASSERT_GE(fd, 0);
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, 1'000);
      [[maybe_unused]] auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ::close(fd);
    }
  }
  for (std::uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(two->link->send(node_id(1), Lane::control, text_message(i, "x")));
    ASSERT_TRUE(two->link->send(node_id(1), Lane::bulk, text_message(i, "x", 5'000)));
  }
  ASSERT_TRUE(one->journal.wait_messages(41));
  for (Lane lane : {Lane::control, Lane::bulk}) {
    EXPECT_EQ(one->journal.count(node_id(2), lane, LinkState::reset), 0u);
  }
}

TEST_F(MeshLinkTest, ConnectionsWithoutAKeyAreBoundedAndAnHonestPeerStillGetsIn) {
  auto one = start(1);
  for (const std::string& endpoint :
       {one->link->control_endpoints()[0], one->link->bulk_endpoints()[0]}) {
    std::vector<pollfd> silent;
    const int most = 64, extra = 6;  // of one address, at either port
    for (int i = 0; i < most + extra; ++i) {
      int fd = raw_connection(endpoint);
      ASSERT_GE(fd, 0);
      silent.push_back({fd, POLLRDHUP, 0});
    }
    const SystemClock clock;
    const Time begin = clock.now(), until = begin + kHangLimit;
    int shut = 0;
    while (shut < extra && clock.now() < until) shut = ::poll(silent.data(), silent.size(), 10);
    EXPECT_GE(shut, extra) << "still open";
    // Who says nothing is shut after three seconds anyway.
    if (clock.now() < begin + std::chrono::seconds(1)) EXPECT_LT(shut, most) << "too strict";
    auto two = start(2, {.dial_only = true});
    introduce(1, *one, 2, *two);
    two->link->close();
    for (pollfd& connection : silent) ::close(connection.fd);
    one->link->drop_peer(node_id(2));
    one->journal.clear();
  }
}

TEST_F(MeshLinkTest, ALinkThatClosesWhileItDialsLeavesNoDescriptorOpen) {
  std::vector<std::string> shut;  // ports where nothing listens
  {
    auto gone = start(1);
    shut = gone->link->control_endpoints();
  }
  auto open_sockets = [] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code failed;
      auto target = std::filesystem::read_symlink(entry.path(), failed).string();
      count += target.starts_with("socket:");
    }
    return count;
  };
  auto dial_and_close = [&] {
    auto dialler = start(100, {.dial_only = true});
    for (int i = 0; i < 40; ++i) {
      PeerAddress address;
      address.node = node_id(200 + i);
      address.control_endpoints = shut;
      address.curve_public_key = KeyPair::create().open;
      dialler->link->set_peer(address);
    }
    EXPECT_TRUE(dialler->journal.wait_state(node_id(200), Lane::control, LinkState::refused));
    dialler->link->close();
  };
  std::size_t before = open_sockets();
  for (int round = 0; round < 10; ++round) dial_and_close();
  // ZeroMQ closes its own in its own time.
  auto deadline = std::chrono::steady_clock::now() + kHangLimit;
  while (open_sockets() > before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LE(open_sockets(), before);
}

TEST_F(MeshLinkTest, ATakenPortIsNamedAndNothingStaysBehind) {
  auto one = start(1);
  MeshLinkOptions options = net_.options(2, 1, {});
  options.control_listen = one->link->control_endpoints();
  auto second = MeshLink::open(options, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  std::string port = std::to_string(port_of(one->link->control_endpoints()[0]));
  EXPECT_NE(second.error().detail.find(port), std::string::npos);
  options.control_listen = {"tcp://203.0.113.7:0"};
  EXPECT_EQ(MeshLink::open(options, {}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::transport::test
