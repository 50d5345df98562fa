// What a member may hold and ask for at another one's ports, with valid keys and a socket of its own making:
// connections, sessions opened anew, openings of bulk.
#include <poll.h>
#include <unistd.h>

#include <vector>

#include "runtime/security/session_keys.hpp"
#include "runtime/transport/detail/bulk_door.hpp"
#include "runtime/transport/detail/control_frame.hpp"
#include "tests/unit/runtime/transport/mesh_link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

using detail::Envelope;
using detail::Kind;

class MemberLimitsTest : public MeshLinkTest {
 protected:
  static constexpr int kHostile = 3;

  MemberLimitsTest() : node_(start(1)) { node_->link->set_peer(net_.address(kHostile)); }

  Envelope hello(std::uint64_t greeting) const {
    return {.kind = Kind::hello, .session = 70 + greeting, .boot = 1, .greeting = greeting};
  }
  // Until one of its hellos is taken: its session's nonce.
  std::uint64_t open_session(detail::Socket& socket) {
    for (; greeting_ < 30; ++greeting_) {
      const Envelope next = hello(greeting_);
      say(socket, next);
      const bool up = node_->journal.wait(
          [](const auto& events) {
            return Journal::count_in(events, node_id(kHostile), Lane::control, LinkState::up) > 0;
          },
          std::chrono::milliseconds(200));
      if (up) return next.session;
    }
    ADD_FAILURE() << "no session";
    return 0;
  }
  static bool say(detail::Socket& socket, const Envelope& envelope) {
    detail::Frames frames = frames_of(envelope);
    return socket.send(frames) == detail::Sent::yes;
  }
  // Waits until `count` of them have ended, or says that they have not.
  static bool end(std::vector<detail::Monitor>& monitors, std::size_t count) {
    const SystemClock clock;
    const Time until = clock.now() + kHangLimit;
    std::vector<bool> ended(monitors.size());
    std::size_t sum = 0;
    while (sum < count && clock.now() < until) {
      for (std::size_t at = 0; at < monitors.size(); ++at)
        while (const auto event = monitors[at].next())
          if (event->event == ZMQ_EVENT_DISCONNECTED && !ended[at]) ended[at] = true, ++sum;
      ::poll(nullptr, 0, 5);
    }
    return sum >= count;
  }

  std::unique_ptr<Node> node_;
  std::uint64_t greeting_ = 1;
};

TEST_F(MemberLimitsTest, ItsConnectionsAreFewAndGoWithIt) {
  detail::Socket first = by_hand(kHostile, 1, *node_);
  ASSERT_GT(open_session(first), 0u);
  std::vector<detail::Socket> sockets;
  std::vector<detail::Monitor> monitors;
  constexpr std::size_t kConnections = 10, kMost = 4;
  for (std::size_t at = 0; at < kConnections; ++at) {
    sockets.push_back(by_hand(kHostile, 1, *node_));
    sockets.back().set(ZMQ_RECONNECT_IVL, -1);
    monitors.emplace_back(detail::control_context(), sockets.back());
    ASSERT_TRUE(say(sockets.back(), hello(1)));  // an old one, which opens nothing
  }
  EXPECT_TRUE(end(monitors, kConnections - kMost)) << "more than a few stay open";
  EXPECT_EQ(node_->journal.count(node_id(kHostile), Lane::control, LinkState::reset), 0u)
      << "the session is another one's";
  node_->link->drop_peer(node_id(kHostile));
  EXPECT_TRUE(end(monitors, kMost - 1)) << "what a node has opened goes with it";
}

TEST_F(MemberLimitsTest, SessionsThatItOpensAnewAreBounded) {
  detail::Socket socket = by_hand(kHostile, 1, *node_);
  ASSERT_GT(open_session(socket), 0u);
  for (int round = 0; round < 300; ++round) {
    say(socket, hello(++greeting_));
    ::poll(nullptr, 0, 1);
  }
  EXPECT_TRUE(node_->journal.wait_dropped(node_id(kHostile), Dropped::too_often, 1));
  EXPECT_LT(node_->journal.count(node_id(kHostile), Lane::control, LinkState::up), 100u);
}

TEST_F(MemberLimitsTest, BulkSessionsThatItAsksForAreBounded) {
  detail::Socket socket = by_hand(kHostile, 1, *node_);
  const std::uint64_t session = open_session(socket);
  ASSERT_GT(session, 0u);
  for (std::uint64_t seq = 1; seq <= 400; ++seq)
    ASSERT_TRUE(say(socket, {.kind = Kind::bulk_request, .session = session, .seq = seq}));
  EXPECT_TRUE(node_->journal.wait_dropped(node_id(kHostile), Dropped::too_often, 300));
  EXPECT_EQ(node_->journal.count(node_id(kHostile), Lane::control, LinkState::reset), 0u);
}

// A ticket for each, which is shown, and then nothing more is said.
TEST_F(MemberLimitsTest, OneBulkConnectionThatSaysNothingIsKept) {
  detail::Socket socket = by_hand(kHostile, 1, *node_);
  const std::uint64_t session = open_session(socket);
  const auto key = security::EphemeralKey::create();
  std::vector<pollfd> silent;
  const SystemClock clock;
  const Time until = clock.now() + kHangLimit;
  constexpr std::size_t kGuests = 6;
  for (std::uint64_t seq = 1; seq <= kGuests; ++seq) {
    ASSERT_TRUE(say(socket, {.kind = Kind::bulk_request,
                             .session = session,
                             .seq = seq,
                             .key_share = key.public_key()}));
    std::string ticket;
    while (ticket.empty() && clock.now() < until) {
      detail::Frames frames = socket.receive(1);
      detail::WireMessage message;
      std::uint16_t other_major = 0;
      if (frames.size() == 1 &&
          detail::unpack_frame(frames[0], message, other_major) == detail::Unpacked::message &&
          message.envelope.kind == Kind::bulk_ticket)
        ticket = message.envelope.ticket;
    }
    ASSERT_FALSE(ticket.empty());
    const int fd = raw_connection(node_->link->bulk_endpoints()[0]);
    pollfd ready{fd, POLLOUT, 0};
    ::poll(&ready, 1, 1'000);
    ASSERT_TRUE(detail::BulkDoor::show_ticket(fd, ticket));
    silent.push_back({fd, POLLRDHUP, 0});
  }
  int shut = 0;
  while (shut < static_cast<int>(kGuests) - 1 && clock.now() < until)
    shut = ::poll(silent.data(), silent.size(), 10);
  EXPECT_EQ(shut, static_cast<int>(kGuests) - 1);
  for (const pollfd& one : silent) ::close(one.fd);
}

TEST_F(MemberLimitsTest, WhatIsNoDataInASessionIsToldOf) {
  detail::Socket socket = by_hand(kHostile, 1, *node_);
  const std::uint64_t session = open_session(socket);
  ASSERT_GT(session, 0u);
  for (int time = 0; time < 5; ++time)
    ASSERT_TRUE(say(socket, {.kind = Kind::welcome, .session = session}));
  EXPECT_TRUE(node_->journal.wait_dropped(node_id(kHostile), Dropped::out_of_session, 5));
}

}  // namespace
}  // namespace gpunode::transport::test
