// Nodes with a MeshLink each, on loopback.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/mesh_link.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {

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
  // A socket with the keys of an admitted node, to say anything to another one's control port.
  detail::Socket by_hand(int number, int to, Node& node, const std::string& routing_id = "") {
    const MeshLinkOptions keys = net_.options(number, 1, {.dial_only = true});
    detail::Socket socket(detail::control_context(), ZMQ_DEALER);
    if (!routing_id.empty()) socket.set_bytes(ZMQ_ROUTING_ID, as_bytes(routing_id));
    socket.set_bytes(ZMQ_CURVE_SERVERKEY, net_.address(to).curve_public_key);
    socket.set_bytes(ZMQ_CURVE_PUBLICKEY, keys.curve_public_key);
    socket.set_bytes(ZMQ_CURVE_SECRETKEY, keys.curve_secret_key);
    socket.connect(node.link->control_endpoints()[0]);
    return socket;
  }
  static detail::Frames frames_of(const detail::Envelope& envelope) {
    const Bytes head = detail::encode_envelope(envelope);
    const auto size = static_cast<std::uint32_t>(head.size());
    Bytes bytes(8 + head.size());
    std::memcpy(bytes.data(), &size, 4);
    std::memcpy(bytes.data() + 4, head.data(), head.size());
    detail::Frames frames;
    frames.emplace_back(bytes);
    return frames;
  }
  static std::optional<Lane> lane_of(const Result<Lane>& sent) {
    return sent ? std::optional(*sent) : std::nullopt;
  }
  MeshNet net_;
};

}  // namespace gpunode::transport::test
