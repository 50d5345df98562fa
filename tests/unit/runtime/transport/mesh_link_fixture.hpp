// Nodes with a MeshLink each, on loopback.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/detail/tcp.hpp"
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
  static std::optional<Lane> lane_of(const Result<Lane>& sent) {
    return sent ? std::optional(*sent) : std::nullopt;
  }
  MeshNet net_;
};

}  // namespace gpunode::transport::test
