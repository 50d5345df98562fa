// The contract of Link, run over both links.
#include <atomic>
#include <thread>

#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

template <class NetType>
class LinkContract : public ::testing::Test {
 protected:
  struct Node {
    Journal journal;
    std::unique_ptr<Link> link;
  };
  Node& start(int number, Boot boot = 1) {
    auto& node = nodes_[number];
    node = std::make_unique<Node>();
    node->link = net_.open(number, boot, node->journal.events());
    return *node;
  }
  void introduce() {
    std::map<int, Link*> links;
    for (auto& [number, node] : nodes_) links[number] = node->link.get();
    net_.introduce(links);
  }
  void pair() {
    start(1);
    start(2);
    introduce();
    ASSERT_TRUE(one().journal.wait_state(node_id(2), Lane::control, LinkState::up));
    ASSERT_TRUE(two().journal.wait_state(node_id(1), Lane::control, LinkState::up));
  }
  Node& one() { return *nodes_[1]; }
  Node& two() { return *nodes_[2]; }
  void TearDown() override {
    for (auto& [number, node] : nodes_) node->link->close();
  }

  NetType net_;
  std::map<int, std::unique_ptr<Node>> nodes_;
};

using Nets = ::testing::Types<MemoryNet, MeshNet>;
TYPED_TEST_SUITE(LinkContract, Nets);

TYPED_TEST(LinkContract, MessagesOfEachLaneArriveInOrderWithTheirParts) {
  this->pair();
  constexpr std::uint64_t kCount = 200;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (Lane lane : {Lane::control, Lane::bulk}) {
      auto message = text_message(i, "body " + std::to_string(i), i % 3 == 0 ? 10'000 + i : 0);
      auto sent = this->one().link->send(node_id(2), lane, message);
      ASSERT_TRUE(sent) << sent.error().message();
    }
  }
  ASSERT_TRUE(this->two().journal.wait_messages(2 * kCount));
  std::uint64_t next[2] = {0, 0};
  for (const Received& got : this->two().journal.messages()) {
    std::uint64_t& expected = next[static_cast<int>(got.lane)];
    ASSERT_EQ(got.message.stream, expected);
    EXPECT_EQ(got.from, node_id(1));
    EXPECT_EQ(got.message.topic, Topic::job);
    EXPECT_EQ(as_text(got.message.body), "body " + std::to_string(expected));
    std::size_t payload = expected % 3 == 0 ? 10'000 + expected : 0;
    ASSERT_EQ(got.message.payload.size(), payload);
    if (payload > 0) {
      EXPECT_EQ(got.message.payload.view.back(), std::byte(expected & 0xff));
    }
    ++expected;
  }
  EXPECT_EQ(this->two().link->counters(Lane::control).frames_received, kCount);
  EXPECT_EQ(this->one().link->counters(Lane::control).frames_sent, kCount);
}

TYPED_TEST(LinkContract, BothWaysWorkOnBothLanes) {
  this->pair();
  for (Lane lane : {Lane::control, Lane::bulk}) {
    ASSERT_TRUE(this->one().link->send(node_id(2), lane, text_message(1, "there", 5)));
    ASSERT_TRUE(this->two().link->send(node_id(1), lane, text_message(2, "back", 5)));
  }
  EXPECT_TRUE(this->one().journal.wait_messages(2));
  EXPECT_TRUE(this->two().journal.wait_messages(2));
}

TYPED_TEST(LinkContract, AnUnknownPeerIsNotFound) {
  this->pair();
  auto sent = this->one().link->send(node_id(9), Lane::control, text_message(1, "x"));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::not_found);
}

TYPED_TEST(LinkContract, AMessageOverTheLimitIsRefusedAndTheSessionStays) {
  this->pair();
  Message big = text_message(1, "");
  big.body.resize(kMaxBodyBytes + 1);
  auto sent = this->one().link->send(node_id(2), Lane::control, std::move(big));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::invalid_argument);
  auto bulk =
      this->one().link->send(node_id(2), Lane::bulk, text_message(1, "", kMaxBulkPayloadBytes + 1));
  ASSERT_FALSE(bulk);
  EXPECT_EQ(bulk.error().code, ErrorCode::invalid_argument);

  Message largest = text_message(3, "", kMaxControlPayloadBytes);
  largest.body.resize(kMaxBodyBytes);
  ASSERT_TRUE(this->one().link->send(node_id(2), Lane::control, std::move(largest)));
  ASSERT_TRUE(
      this->one().link->send(node_id(2), Lane::bulk, text_message(4, "", kMaxBulkPayloadBytes)));
  ASSERT_TRUE(this->two().journal.wait_messages(2));
  EXPECT_EQ(this->one().journal.count(node_id(2), Lane::control, LinkState::reset), 0u);
}

TYPED_TEST(LinkContract, AClosedPeerIsReportedAsResetAndThenAsRefused) {
  this->pair();
  this->two().link->close();
  EXPECT_TRUE(this->one().journal.wait_state(node_id(2), Lane::control, LinkState::reset));
  EXPECT_TRUE(this->one().journal.wait_state(node_id(2), Lane::control, LinkState::refused));
  for (Lane lane : {Lane::control, Lane::bulk}) {
    auto sent = this->one().link->send(node_id(2), lane, text_message(1, "x"));
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, ErrorCode::unavailable);
  }
}

TYPED_TEST(LinkContract, ARestartedPeerIsReportedAsResetBeforeItsFirstMessage) {
  this->pair();
  ASSERT_TRUE(this->two().link->send(node_id(1), Lane::control, text_message(1, "old life")));
  ASSERT_TRUE(this->one().journal.wait_messages(1));
  this->two().link->close();
  this->start(2, 2);
  this->introduce();
  ASSERT_TRUE(send_when_up(*this->two().link, this->two().journal, node_id(1), Lane::control,
                           text_message(2, "new life")));
  ASSERT_TRUE(this->one().journal.wait_messages(2));
  bool reset_seen = false;
  std::uint64_t last = 0;
  for (const Event& event : this->one().journal.all()) {
    if (event.state && event.state->state == LinkState::reset) reset_seen = true;
    if (event.received) last = event.received->message.stream;
    if (last == 2) break;
  }
  EXPECT_EQ(last, 2u);
  EXPECT_TRUE(reset_seen);
}

TYPED_TEST(LinkContract, ADroppedPeerIsForgottenAndNotReported) {
  this->pair();
  this->one().link->drop_peer(node_id(2));
  auto sent = this->one().link->send(node_id(2), Lane::control, text_message(1, "x"));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::not_found);
  EXPECT_TRUE(this->two().journal.wait_state(node_id(1), Lane::control, LinkState::reset));
  EXPECT_EQ(this->one().journal.count(node_id(2), Lane::control, LinkState::reset), 0u);
}

TYPED_TEST(LinkContract, ADroppedPeerComesBackWhenItIsSetAgain) {
  this->pair();
  this->one().link->drop_peer(node_id(2));
  ASSERT_TRUE(this->two().journal.wait_state(node_id(1), Lane::control, LinkState::reset));
  this->one().link->set_peer(this->net_.address(2));
  ASSERT_TRUE(this->one().journal.wait_state(node_id(2), Lane::control, LinkState::up, 2));
  ASSERT_TRUE(this->one().link->send(node_id(2), Lane::control, text_message(7, "again")));
  EXPECT_TRUE(this->two().journal.wait_messages(1));
}

TYPED_TEST(LinkContract, CloseWhileOthersSendEndsCleanly) {
  this->pair();
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  std::vector<std::thread> senders;
  for (Lane lane : {Lane::control, Lane::bulk}) {
    senders.emplace_back([&, lane] {
      for (std::uint64_t i = 0; !stop; ++i) {
        auto sent = this->one().link->send(node_id(2), lane, text_message(i, "x", 1'000));
        if (!sent) ++refused;
        std::this_thread::yield();
      }
    });
  }
  EXPECT_TRUE(this->two().journal.wait_messages(50));
  this->one().link->close();
  auto sent = this->one().link->send(node_id(2), Lane::control, text_message(0, "x"));
  EXPECT_FALSE(sent);
  stop = true;
  for (std::thread& sender : senders) sender.join();
  std::size_t told = this->one().journal.all().size();
  this->two().link->close();
  EXPECT_EQ(this->one().journal.all().size(), told) << "an event after close";
}

TYPED_TEST(LinkContract, ThreeNodesOfOneProcessReachEachOther) {
  for (int number : {1, 2, 3}) this->start(number);
  this->introduce();
  for (auto& [from, node] : this->nodes_) {
    for (int to : {1, 2, 3}) {
      if (to == from) continue;
      ASSERT_TRUE(node->journal.wait_state(node_id(to), Lane::control, LinkState::up));
      for (Lane lane : {Lane::control, Lane::bulk}) {
        ASSERT_TRUE(node->link->send(node_id(to), lane, text_message(from, "hi", 2'000)));
      }
    }
  }
  for (auto& [number, node] : this->nodes_) {
    ASSERT_TRUE(node->journal.wait_messages(4));
    for (const Received& got : node->journal.messages()) {
      EXPECT_EQ(got.from, node_id(static_cast<int>(got.message.stream)));
    }
  }
}

}  // namespace
}  // namespace gpunode::transport::test
