// A node's links take another key: what becomes of its sessions, and of who has not heard of it.
#include <algorithm>

#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

constexpr Lane kLane = Lane::control;

// What is sent as a session closes is lost: it is sent until it is there.
bool arrives(Link& link, const NodeId& from, Journal& at, const NodeId& to,
             const std::string& text) {
  const auto is_here = [&](const auto& events) {
    return std::ranges::any_of(events, [&](const auto& event) {
      return event.received && event.received->from == from &&
             as_text(event.received->message.body) == text;
    });
  };
  for (int tries = 0; tries < 100; ++tries) {
    (void)link.send(to, kLane, text_message(1, text));
    if (at.wait(is_here, std::chrono::milliseconds(300))) return true;
  }
  return false;
}

TEST(LinkKeys, OpensTheSessionsAnewAtTheSamePorts) {
  MeshNet net;
  Journal heard[3];
  std::unique_ptr<MeshLink> links[3];
  for (int n = 0; n < 3; ++n)
    links[n] = net.open_mesh(n + 1, 1, heard[n].events(), {.dial_only = n == 2});
  const auto introduce = [&] {
    for (int n = 0; n < 3; ++n)
      for (int other = 0; other < 3; ++other)
        if (other != n && n + other != 3) links[n]->set_peer(net.address(other + 1));
  };
  const auto all_up = [&](std::size_t times) {
    return heard[0].wait_state(node_id(2), kLane, LinkState::up, times) &&
           heard[0].wait_state(node_id(3), kLane, LinkState::up, times) &&
           heard[1].wait_state(node_id(1), kLane, LinkState::up, times) &&
           heard[2].wait_state(node_id(1), kLane, LinkState::up, times);
  };
  introduce();
  ASSERT_TRUE(all_up(1));
  const auto ports = links[0]->control_endpoints();
  for (std::size_t round = 2; round < 5; ++round) {
    links[0]->use_keys(net.rekey(1));
    introduce();
    ASSERT_TRUE(all_up(round)) << round;
    EXPECT_EQ(links[0]->control_endpoints(), ports);
    for (int n = 1; n < 3; ++n) {
      const std::string text = "round " + std::to_string(round);
      EXPECT_TRUE(arrives(*links[n], node_id(n + 1), heard[0], node_id(1), text));
      EXPECT_TRUE(arrives(*links[0], node_id(1), heard[n], node_id(n + 1), text));
    }
  }
  for (auto& link : links) link->close();
}

TEST(LinkKeys, AreToldAtAPeerThatKnowsTheOneBeforeAlone) {
  MeshNet net;
  Journal heard, told;
  auto one = net.open_mesh(1, 1, heard.events(), {.dial_only = true});
  const PeerAddress before = net.address(1);
  const LinkKeys keys = net.rekey(1);
  MeshLinkOptions options = net.options(2, 1, {});
  options.admit = [&](const CurveKey& key) -> KeyVerdict {
    if (key != before.curve_public_key) return {};
    return {KeyVerdict::Answer::accepted, node_id(1)};
  };
  auto two = MeshLink::open(options, told.events());
  ASSERT_TRUE(two) << two.error().message();
  (*two)->set_peer(before);
  const PeerAddress at{node_id(2), 1, (*two)->control_endpoints(), (*two)->bulk_endpoints(),
                       options.curve_public_key};
  one->use_keys({keys.now, std::nullopt});
  one->set_peer(at);
  EXPECT_TRUE(heard.all().empty());
  one->use_keys(keys);
  EXPECT_TRUE(heard.wait_state(node_id(2), kLane, LinkState::up));
  EXPECT_TRUE(told.wait_state(node_id(1), kLane, LinkState::up));
  one->close();
  (*two)->close();
}

}  // namespace
}  // namespace gpunode::transport::test
