// A peer chooses the routing id that it sends. One that guesses the number which a ROUTER of libzmq
// gives next to a connection without an id ends the process; here it sees the numbers and need not
// guess. The inbox of a node takes no id from anybody.
#include "runtime/transport/detail/control_frame.hpp"
#include "runtime/transport/detail/zap_door.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"
#include "tests/unit/runtime/transport/socket_wait.hpp"

namespace gpunode::transport::test {
namespace {

// The number that the ROUTER gives to the connection after one of `name`.
Bytes number_after(Bytes name) {
  for (std::size_t digit = name.size(); digit-- > 1;) {
    name[digit] = std::byte(std::to_integer<int>(name[digit]) + 1);
    if (name[digit] != std::byte{0}) break;
  }
  return name;
}

// Says a word on a new connection and returns the name under which the ROUTER hears it. `claims`:
// the routing id that it sends; empty: none.
Bytes name_of_next(detail::Socket& router, const std::string& endpoint, detail::Socket& speaker,
                   ByteView claims) {
  speaker = detail::Socket(detail::control_context(), ZMQ_DEALER);
  if (!claims.empty()) EXPECT_TRUE(speaker.set_bytes(ZMQ_ROUTING_ID, claims));
  EXPECT_TRUE(speaker.connect(endpoint));
  detail::Frames word;
  word.emplace_back(as_bytes("x"));
  EXPECT_EQ(speaker.send(word), detail::Sent::yes);
  detail::Frames heard = wait_for(router);
  EXPECT_EQ(heard.size(), 2u);
  return heard.empty() ? Bytes() : to_bytes(heard[0].view());
}

// One claims a number that comes after the next, and is there when it is dealt out.
void attack(bool ignores) {
  detail::Socket router(detail::control_context(), ZMQ_ROUTER);
  router.set(ZMQ_ROUTER_MANDATORY, 1);
  auto endpoint = router.bind("tcp://127.0.0.1:0");
  ASSERT_TRUE(endpoint);
  if (ignores) ASSERT_TRUE(detail::ignore_routing_ids(router));
  detail::Socket honest[3], liars[2];
  const Bytes first = name_of_next(router, *endpoint, honest[0], {});
  const Bytes second = number_after(first), third = number_after(second);
  EXPECT_EQ(name_of_next(router, *endpoint, liars[0], third), ignores ? second : third);
  EXPECT_EQ(name_of_next(router, *endpoint, honest[1], {}), ignores ? third : second);
  EXPECT_EQ(name_of_next(router, *endpoint, honest[2], {}), number_after(third));
  EXPECT_EQ(name_of_next(router, *endpoint, liars[1], third), number_after(number_after(third)));
}

TEST(RoutingId, ARouterThatIgnoresItNamesItsConnectionsItself) {
  attack(true);
}

TEST(RoutingId, ARouterThatTakesItIsEndedByAGuess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(attack(false), "Assertion failed");
}

// Admitted, with a key of its own; `claims` as above.
detail::Socket member(const MeshLinkOptions& keys, const MeshLink& node, const CurveKey& server,
                      ByteView claims) {
  detail::Socket socket(detail::control_context(), ZMQ_DEALER);
  EXPECT_TRUE(socket.set_bytes(ZMQ_ROUTING_ID, claims));
  socket.set_bytes(ZMQ_CURVE_SERVERKEY, server);
  socket.set_bytes(ZMQ_CURVE_PUBLICKEY, keys.curve_public_key);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, keys.curve_secret_key);
  EXPECT_TRUE(socket.connect(node.control_endpoints()[0]));
  return socket;
}

TEST(RoutingId, AMemberThatClaimsNumbersIsHeardAsAnybodyAndDisturbsNobody) {
  MeshNet net;
  Journal journals[2];
  auto one = net.open_mesh(1, 1, journals[0].events(), {});
  auto two = net.open_mesh(2, 1, journals[1].events(), {});
  const MeshLinkOptions hostile = net.options(3, 1, {.dial_only = true});
  const CurveKey server = net.address(1).curve_public_key;
  // Held while others come and go: numbers, the same ones again, and another node's name.
  std::vector<Bytes> ids;
  for (int number = 0; number < 16; ++number)
    for (int twice = 0; twice < 2; ++twice)
      ids.push_back({std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte(number)});
  ids.push_back(to_bytes(as_bytes(node_id(2).text())));
  std::vector<detail::Socket> held;
  for (const Bytes& id : ids) {
    held.push_back(member(hostile, *one, server, id));
    detail::Frames hello;
    hello.push_back(detail::pack_frame(
        {.kind = detail::Kind::hello, .session = held.size(), .boot = 1, .greeting = 1}));
    ASSERT_EQ(held.back().send(hello), detail::Sent::yes);
    // On the connection that asked, though another one claims the same id and is still there.
    detail::Frames answer = wait_for(held.back());
    ASSERT_EQ(answer.size(), 1u) << "connection " << held.size();
    detail::WireMessage told;
    std::uint16_t other_major = 0;
    ASSERT_EQ(detail::unpack_frame(answer[0], told, other_major), detail::Unpacked::message);
    EXPECT_EQ(told.envelope.kind, detail::Kind::not_yet);
    EXPECT_EQ(told.envelope.session, held.size());
  }
  one->set_peer(net.address(2));
  two->set_peer(net.address(1));
  ASSERT_TRUE(send_when_up(*two, journals[1], node_id(1), Lane::control, text_message(1, "x")));
  ASSERT_TRUE(journals[0].wait_messages(1));
  EXPECT_EQ(journals[0].messages()[0].from, node_id(2));
  EXPECT_EQ(journals[0].count(node_id(2), Lane::control, LinkState::reset), 0u);
}

}  // namespace
}  // namespace gpunode::transport::test
