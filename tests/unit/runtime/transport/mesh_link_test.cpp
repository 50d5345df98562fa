// What only MeshLink promises: faults of the network are seen, and bad frames end a session and nothing
// else.
#include <atomic>
#include <set>
#include <thread>

#include "tests/support/fault_proxy.hpp"
#include "tests/unit/runtime/transport/mesh_link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

using gpunode::testing::FaultProxy;

TEST_F(MeshLinkTest, WhatSomebodyWaitsForOpensTheSoonerLaneAndTakesIt) {
  auto one = start(1), two = start(2);
  introduce(1, *one, 2, *two);
  std::uint64_t sent = 0;
  const auto lane = [&](Node& from, int to) {
    const auto went = from.link->send_soon(node_id(to), text_message(++sent, "call"));
    EXPECT_TRUE(went);
    return went ? *went : Lane::control;
  };
  for (int i = 0; i < 16; ++i) EXPECT_EQ(lane(*one, 2), Lane::control);
  ASSERT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::up));
  ASSERT_TRUE(two->journal.wait_state(node_id(1), Lane::bulk, LinkState::up));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(lane(*one, 2), Lane::bulk);
    EXPECT_EQ(lane(*two, 1), Lane::bulk);
  }
  ASSERT_TRUE(two->journal.wait_messages(116));
  ASSERT_TRUE(one->journal.wait_messages(100));
  std::uint64_t before = 0;
  for (const Received& received : two->journal.messages()) {
    if (received.lane != Lane::bulk) continue;
    EXPECT_GT(received.message.stream, before) << "in the order of sending";
    before = received.message.stream;
  }
}

TEST_F(MeshLinkTest, WhatSomebodyWaitsForDoesNotGoBehindMuchElseNorInPlainText) {
  auto one = start(1), two = start(2);
  introduce(1, *one, 2, *two);
  ASSERT_TRUE(one->link->send(node_id(2), Lane::bulk, text_message(1, "opens it")));
  ASSERT_TRUE(two->journal.wait_messages(1));
  const Message megabytes = text_message(2, "chunk", 8 << 20);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(one->link->send(node_id(2), Lane::bulk, megabytes));
  EXPECT_EQ(lane_of(one->link->send_soon(node_id(2), text_message(3, "call"))), Lane::control);
  EXPECT_EQ(lane_of(one->link->send_soon(node_id(2), text_message(4, "call", 100'000))), Lane::bulk)
      << "it is long itself";
  ASSERT_TRUE(two->journal.wait_messages(11));

  auto three = start(3, {.plain = true}), four = start(4, {.plain = true});
  introduce(3, *three, 4, *four);
  ASSERT_TRUE(three->link->send(node_id(4), Lane::bulk, text_message(1, "opens it")));
  ASSERT_TRUE(four->journal.wait_messages(1));
  EXPECT_EQ(lane_of(three->link->send_soon(node_id(4), text_message(2, "call"))), Lane::control);
}

TEST_F(MeshLinkTest, ManyWhoSendAtOnceEachFindTheirWordsOnceAndInOrder) {
  auto one = start(1), two = start(2);
  introduce(1, *one, 2, *two);
  ASSERT_TRUE(one->link->send(node_id(2), Lane::bulk, text_message(1'000'000, "opens it")));
  ASSERT_TRUE(two->journal.wait_messages(1));
  constexpr std::uint64_t kSenders = 8, kEach = 500;
  {
    std::vector<std::jthread> senders;
    for (std::uint64_t sender = 0; sender < kSenders; ++sender)
      senders.emplace_back([&, sender] {
        for (std::uint64_t i = 0; i < kEach; ++i)
          EXPECT_TRUE(one->link->send_soon(node_id(2), text_message(sender * kEach + i, "call")));
      });
  }
  ASSERT_TRUE(two->journal.wait_messages(1 + kSenders * kEach));
  std::map<std::pair<Lane, std::uint64_t>, std::uint64_t> last;
  std::set<std::uint64_t> streams;
  for (const Received& received : two->journal.messages()) {
    const std::uint64_t stream = received.message.stream;
    EXPECT_TRUE(streams.insert(stream).second) << stream << " came twice";
    auto [at, first] = last.try_emplace({received.lane, stream / kEach}, stream);
    if (!first) {
      EXPECT_GT(stream, at->second);
    }
    at->second = stream;
  }
}

TEST_F(MeshLinkTest, AKeyThatIsNotAdmittedGetsInOnlyOnceItIs) {
  std::atomic<int> knocks{0};
  std::atomic<bool> admitted{false};
  auto stranger = start(2, {.dial_only = true});
  MeshLinkOptions options = net_.options(1, 1, {});
  options.admit = [&](const CurveKey& key) {
    ++knocks;
    if (!admitted) return KeyVerdict{KeyVerdict::Answer::revoked, {}};
    return net_.admit(key);
  };
  Journal journal;
  auto link = MeshLink::open(options, journal.events());
  ASSERT_TRUE(link) << link.error().message();
  (*link)->set_peer(net_.address(2));
  PeerAddress target{node_id(1), 1, (*link)->control_endpoints(), (*link)->bulk_endpoints(),
                     options.curve_public_key};
  stranger->link->set_peer(target);
  while (knocks < 5) std::this_thread::yield();
  EXPECT_EQ(stranger->journal.count(node_id(1), Lane::control, LinkState::up), 0u);
  EXPECT_TRUE(journal.all().empty());
  admitted = true;
  EXPECT_TRUE(stranger->journal.wait_state(node_id(1), Lane::control, LinkState::up));
  EXPECT_TRUE(journal.wait_state(node_id(2), Lane::control, LinkState::up));
  (*link)->close();
}

TEST_F(MeshLinkTest, AWrongServerKeyIsNotTakenForThePeer) {
  auto one = start(1);
  auto two = start(2, {.dial_only = true});
  PeerAddress wrong = net_.address(1);
  wrong.curve_public_key = KeyPair::create().open;
  one->link->set_peer(net_.address(2));
  two->link->set_peer(wrong);
  // The handshake fails in silence; the true key is what opens the session.
  two->link->set_peer(net_.address(1));
  ASSERT_TRUE(two->journal.wait_state(node_id(1), Lane::control, LinkState::up));
  EXPECT_EQ(two->journal.count(node_id(1), Lane::control, LinkState::up), 1u);
}

TEST_F(MeshLinkTest, ADialOnlyPeerIsReachedOnTheConnectionThatItOpened) {
  auto one = start(1);
  auto two = start(2, {.dial_only = true});
  EXPECT_TRUE(two->link->control_endpoints().empty());
  introduce(1, *one, 2, *two);
  for (Lane lane : {Lane::control, Lane::bulk}) {
    ASSERT_TRUE(one->link->send(node_id(2), lane, text_message(1, "to the dialler", 70'000)));
  }
  ASSERT_TRUE(two->journal.wait_messages(2));
  for (Lane lane : {Lane::control, Lane::bulk}) {
    ASSERT_TRUE(two->link->send(node_id(1), lane, text_message(2, "to the listener", 70'000)));
  }
  ASSERT_TRUE(one->journal.wait_messages(2));
}

TEST_F(MeshLinkTest, ABulkEndpointMayBeAName) {
  if (!detail::resolve({"localhost", 1})) GTEST_SKIP() << "no localhost in this system's names";
  auto one = start(1);
  auto two = start(2, {.dial_only = true});
  PeerAddress named = net_.address(1);
  named.bulk_endpoints = {"tcp://no-such-host.invalid:1",
                          "tcp://localhost:" + std::to_string(port_of(named.bulk_endpoints[0]))};
  one->link->set_peer(net_.address(2));
  two->link->set_peer(named);
  ASSERT_TRUE(send_when_up(*two->link, two->journal, node_id(1), Lane::bulk, text_message(1, "x")));
  EXPECT_TRUE(one->journal.wait_messages(1));
}

TEST_F(MeshLinkTest, PlainBulkIsUsedOnlyIfBothEndsAllowIt) {
  for (bool second_plain : {false, true}) {
    MeshNet net;
    Journal journals[2];
    auto one = net.open_mesh(1, 1, journals[0].events(), {.plain = true});
    auto two = net.open_mesh(2, 1, journals[1].events(), {.plain = second_plain});
    // The frames pass a proxy that looks for the text of the payload.
    FaultProxy proxy(port_of(two->bulk_endpoints()[0]));
    PeerAddress address = net.address(2);
    address.bulk_endpoints = {proxy.endpoint()};
    one->set_peer(address);
    two->set_peer(net.address(1));
    proxy.flip(FaultProxy::Way::to_target, 30'000);
    ASSERT_TRUE(
        send_when_up(*one, journals[0], node_id(2), Lane::bulk, text_message(7, "x", 60'000)));
    // A flipped bit passes plain, and ends a sealed session.
    if (second_plain) {
      ASSERT_TRUE(journals[1].wait_messages(1));
    } else {
      ASSERT_TRUE(journals[0].wait_state(node_id(2), Lane::bulk, LinkState::reset));
      EXPECT_TRUE(journals[1].messages().empty());
    }
    EXPECT_EQ(proxy.counts().flipped, 1u);
    one->close();
    two->close();
  }
}

TEST_F(MeshLinkTest, AFrameThatDoesNotOpenEndsTheSessionAndTheNextOneWorks) {
  auto one = start(1);
  auto two = start(2);
  FaultProxy proxy(port_of(two->link->bulk_endpoints()[0]));
  PeerAddress through = net_.address(2);
  through.bulk_endpoints = {proxy.endpoint()};
  two->link->set_peer(net_.address(1));
  one->link->set_peer(through);
  ASSERT_TRUE(send_when_up(*one->link, one->journal, node_id(2), Lane::bulk, text_message(1, "a")));
  ASSERT_TRUE(two->journal.wait_messages(1));
  proxy.flip(FaultProxy::Way::to_target, 30'000);
  ASSERT_TRUE(one->link->send(node_id(2), Lane::bulk, text_message(2, "b", 500'000)));
  ASSERT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::reset));
  ASSERT_TRUE(two->journal.wait_state(node_id(1), Lane::bulk, LinkState::reset));
  EXPECT_GE(two->link->counters(Lane::bulk).frames_dropped, 1u);
  EXPECT_EQ(proxy.counts().flipped, 1u);

  ASSERT_TRUE(one->link->send(node_id(2), Lane::bulk, text_message(3, "c", 500'000)));
  ASSERT_TRUE(two->journal.wait_messages(2));
  EXPECT_EQ(two->journal.messages()[1].message.stream, 3u);
  EXPECT_EQ(one->journal.count(node_id(2), Lane::control, LinkState::reset), 0u);
}

TEST_F(MeshLinkTest, AConnectionThatBreaksIsDialledAgainAndReportedOnBothSides) {
  auto one = start(1);
  auto two = start(2);
  FaultProxy proxy(port_of(two->link->control_endpoints()[0]));
  PeerAddress through = net_.address(2);
  through.control_endpoints = {proxy.endpoint()};
  PeerAddress dial_only = net_.address(1);
  dial_only.control_endpoints.clear();
  two->link->set_peer(dial_only);
  one->link->set_peer(through);
  ASSERT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::up));
  for (std::size_t round = 1; round <= 3; ++round) {
    SCOPED_TRACE(round);
    proxy.reset();
    ASSERT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::reset, round));
    ASSERT_TRUE(two->journal.wait_state(node_id(1), Lane::control, LinkState::reset, round));
    ASSERT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::up, round + 1));
    ASSERT_TRUE(one->link->send(node_id(2), Lane::control, text_message(round, "x")));
    ASSERT_TRUE(two->journal.wait_messages(round));
  }
  EXPECT_GE(proxy.counts().resets, 3u);
}

TEST_F(MeshLinkTest, ASlowReaderExhaustsItsOwnBudgetAndDelaysNobodyElse) {
  auto one = start(1);
  auto two = start(2);
  auto three = start(3);
  FaultProxy proxy(port_of(two->link->bulk_endpoints()[0]));
  PeerAddress slow = net_.address(2);
  slow.bulk_endpoints = {proxy.endpoint()};
  MeshLinkOptions options = net_.options(4, 1, {.dial_only = true});
  options.bulk_budget_bytes = 20 << 20;
  Journal journal;
  auto sender = MeshLink::open(options, journal.events());
  ASSERT_TRUE(sender);
  two->link->set_peer(net_.address(4));
  three->link->set_peer(net_.address(4));
  (*sender)->set_peer(slow);
  (*sender)->set_peer(net_.address(3));
  ASSERT_TRUE(send_when_up(**sender, journal, node_id(2), Lane::bulk, text_message(0, "open")));
  ASSERT_TRUE(two->journal.wait_messages(1));
  proxy.stop(FaultProxy::Way::to_target);
  Result<void> sent;
  int count = 0;
  for (; sent && count < 200; ++count) {
    sent = (*sender)->send(node_id(2), Lane::bulk, text_message(1, "x", 1 << 20));
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::resource_exhausted);
  ASSERT_TRUE(send_when_up(**sender, journal, node_id(3), Lane::bulk, text_message(1, "quick")));
  EXPECT_TRUE(three->journal.wait_messages(1));
  proxy.flow();
  EXPECT_TRUE(two->journal.wait_messages(static_cast<std::size_t>(count)));
  (*sender)->close();
}

}  // namespace
}  // namespace gpunode::transport::test
