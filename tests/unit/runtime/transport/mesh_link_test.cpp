// What only MeshLink promises: strangers stay out, faults of the network and a killed process are
// seen, and bad frames end a session and nothing else.
#include "runtime/transport/mesh_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/base/rng.hpp"
#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"

extern char** environ;

namespace gpunode::transport::test {
namespace {

using gpunode::testing::FaultProxy;

class MeshLinkTest : public ::testing::Test {
 protected:
  struct Node {
    Journal journal;
    std::unique_ptr<MeshLink> link;
  };
  std::unique_ptr<Node> start(int number, MeshNet::Shape shape = {}, Boot boot = 1) {
    auto node = std::make_unique<Node>();
    node->link = net_.open_mesh(number, boot, node->journal.events(), shape);
    return node;
  }
  void introduce(int a, Node& first, int b, Node& second) {
    first.link->set_peer(net_.address(b));
    second.link->set_peer(net_.address(a));
    ASSERT_TRUE(first.journal.wait_state(node_id(b), Lane::control, LinkState::up));
    ASSERT_TRUE(second.journal.wait_state(node_id(a), Lane::control, LinkState::up));
  }
  static std::uint16_t port_of(const std::string& endpoint) {
    return detail::parse_endpoint(endpoint)->port;
  }
  static int raw_connection(const std::string& endpoint) {
    return detail::begin_connect(*detail::numeric_address(*detail::parse_endpoint(endpoint)));
  }
  static std::optional<Lane> lane_of(const Result<Lane>& sent) {
    return sent ? std::optional(*sent) : std::nullopt;
  }
  MeshNet net_;
};

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

TEST_F(MeshLinkTest, ARoutingIdOfAPeersChoiceDoesNotMakeItAnother) {
  auto one = start(1);
  auto two = start(2);
  introduce(1, *one, 2, *two);
  // Node 3 is admitted and known, but speaks through a socket of its own making, with a chosen id.
  MeshLinkOptions spoof = net_.options(3, 1, {.dial_only = true});
  one->link->set_peer(net_.address(3));
  detail::Socket socket(detail::control_context(), ZMQ_DEALER);
  socket.set_bytes(ZMQ_ROUTING_ID, as_bytes(node_id(2).text()));
  socket.set_bytes(ZMQ_CURVE_SERVERKEY, net_.address(1).curve_public_key);
  socket.set_bytes(ZMQ_CURVE_PUBLICKEY, spoof.curve_public_key);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, spoof.curve_secret_key);
  socket.connect(one->link->control_endpoints()[0]);
  auto frame = [](detail::Envelope envelope) {
    Bytes head = detail::encode_envelope(envelope);
    auto size = static_cast<std::uint32_t>(head.size());
    Bytes bytes(8 + head.size());
    std::memcpy(bytes.data(), &size, 4);
    std::memcpy(bytes.data() + 4, head.data(), head.size());
    detail::Frames frames;
    frames.emplace_back(bytes);
    return frames;
  };
  detail::Envelope hello;
  hello.kind = detail::Kind::hello;
  hello.session = 77;
  hello.boot = 1;
  // It is not taken before set_peer() has got through to the lane's thread.
  bool up = false;
  detail::Frames frames;
  for (hello.greeting = 1; !up && hello.greeting < 100; ++hello.greeting) {
    frames = frame(hello);
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
  frames = frame(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  data.topic = static_cast<std::uint16_t>(Topic::job);
  data.seq = 2;
  frames = frame(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  ASSERT_TRUE(one->journal.wait_messages(1));
  EXPECT_EQ(one->journal.messages()[0].from, node_id(3));

  // A gap in the sequence ends that session, and only that one.
  data.seq = 4;
  frames = frame(data);
  ASSERT_EQ(socket.send(frames), detail::Sent::yes);
  ASSERT_TRUE(one->journal.wait_state(node_id(3), Lane::control, LinkState::reset));
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
    const Time until = clock.now() + std::chrono::seconds(3);
    int shut = 0;
    while (shut < extra && clock.now() < until) shut = ::poll(silent.data(), silent.size(), 10);
    EXPECT_GE(shut, extra) << "still open";
    EXPECT_LT(shut, most) << "too strict";
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

// A child process, so that it can be killed.

std::string hex(const CurveKey& key) {
  return to_hex(key);
}
CurveKey key_from(const std::string& text) {
  CurveKey key{};
  std::ranges::copy(from_hex(text), key.begin());
  return key;
}

constexpr const char* kChildVariable = "GPUNODE_LINK_TEST_CHILD";

// What the child runs in place of the tests. Node 2 admits node 1, says where it listens, and waits
// for its end.
bool run_as_child() {
  const char* text = std::getenv(kChildVariable);
  if (!text) return false;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::istringstream in(text);
  std::string parent_key, public_key, secret_key;
  int pipe = -1;
  in >> parent_key >> public_key >> secret_key >> pipe;
  MeshLinkOptions options;
  options.node = node_id(2);
  options.boot = 1;
  options.curve_public_key = key_from(public_key);
  options.curve_secret_key = key_from(secret_key);
  options.control_listen = options.bulk_listen = {"tcp://127.0.0.1:0"};
  options.admit = [&](const CurveKey& key) {
    bool known = hex(key) == parent_key;
    return KeyVerdict{known ? KeyVerdict::Answer::accepted : KeyVerdict::Answer::revoked,
                      node_id(1)};
  };
  auto link = MeshLink::open(options, {});
  if (!link) ::_exit(1);
  PeerAddress parent;
  parent.node = node_id(1);
  parent.curve_public_key = key_from(parent_key);
  (*link)->set_peer(parent);
  std::string line = (*link)->control_endpoints()[0] + " " + (*link)->bulk_endpoints()[0] + "\n";
  if (::write(pipe, line.data(), line.size()) < 0) ::_exit(1);
  for (;;) ::pause();
}

[[maybe_unused]] const bool child = run_as_child();

TEST_F(MeshLinkTest, AKilledProcessIsResetAndThenRefusedAtOnce) {
  KeyPair keys = KeyPair::create();
  auto one = start(1);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  std::string variable = std::string(kChildVariable) + "=" + hex(net_.address(1).curve_public_key) +
                         " " + hex(keys.open) + " " + hex(keys.secret) + " " +
                         std::to_string(pipe[1]);
  std::vector<char*> environment;
  for (char** each = environ; *each; ++each) environment.push_back(*each);
  environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe";
  char* arguments[] = {program.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environment.data()),
            0);
  ::close(pipe[1]);
  std::string line;
  char byte;
  while (::read(pipe[0], &byte, 1) == 1 && byte != '\n') line.push_back(byte);
  ::close(pipe[0]);
  auto space = line.find(' ');
  ASSERT_NE(space, std::string::npos);
  one->link->set_peer(
      {node_id(2), 1, {line.substr(0, space)}, {line.substr(space + 1)}, keys.open});
  EXPECT_TRUE(send_when_up(*one->link, one->journal, node_id(2), Lane::bulk, text_message(1, "x")));
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::up));

  SystemClock clock;
  Time killed = clock.now();
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::reset));
  auto reset = std::chrono::duration_cast<std::chrono::microseconds>(clock.now() - killed);
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::reset));
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::refused));
  auto refused = std::chrono::duration_cast<std::chrono::microseconds>(clock.now() - killed);
  ::waitpid(pid, nullptr, 0);
  RecordProperty("reset_us", static_cast<int>(reset.count()));
  RecordProperty("refused_us", static_cast<int>(refused.count()));
  EXPECT_LT(reset, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace gpunode::transport::test
