// What only MemoryLink promises: the faults that a test can order, and delivery by hand.
#include "tests/support/memory_link.hpp"

#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

class MemoryLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    one_ = network_.open(node_id(1), 1, journals_[0].events());
    two_ = network_.open(node_id(2), 1, journals_[1].events());
    PeerAddress address;
    address.node = node_id(2);
    one_->set_peer(address);
    address.node = node_id(1);
    two_->set_peer(address);
    network_.deliver();
  }
  Result<void> send(std::uint64_t stream, Topic topic = Topic::job) {
    Message message = text_message(stream, "x");
    message.topic = topic;
    return one_->send(node_id(2), Lane::control, message);
  }
  std::size_t at(int journal, LinkState state) {
    return journals_[journal].count(node_id(2 - journal), Lane::control, state);
  }
  std::vector<std::uint64_t> received() {
    std::vector<std::uint64_t> streams;
    for (const Received& got : journals_[1].messages()) streams.push_back(got.message.stream);
    return streams;
  }
  using Streams = std::vector<std::uint64_t>;

  MemoryNetwork network_{MemoryNetwork::Delivery::manual};
  Journal journals_[2];
  std::unique_ptr<Link> one_, two_;
};

TEST_F(MemoryLinkTest, NothingArrivesBeforeDeliver) {
  ASSERT_TRUE(send(1));
  EXPECT_EQ(network_.pending(), 1u);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(network_.deliver(), 1u);
  EXPECT_EQ(received(), Streams{1});
}

TEST_F(MemoryLinkTest, ACutLosesWhatIsUnderWayAndMendOpensANewSession) {
  ASSERT_TRUE(send(1));
  network_.cut(node_id(1), node_id(2));
  EXPECT_FALSE(send(2));
  network_.deliver();
  EXPECT_EQ(at(0, LinkState::reset), 1u);
  EXPECT_EQ(at(1, LinkState::reset), 1u);
  network_.mend(node_id(1), node_id(2));
  network_.deliver();
  EXPECT_EQ(at(0, LinkState::up), 2u);
  ASSERT_TRUE(send(3));
  network_.deliver();
  EXPECT_EQ(received(), Streams{3});
}

TEST_F(MemoryLinkTest, AOneWayCutIsSilentAndLeavesTheOtherWay) {
  network_.cut_one_way(node_id(1), node_id(2));
  ASSERT_TRUE(send(1));
  ASSERT_TRUE(two_->send(node_id(1), Lane::control, text_message(2, "x")));
  network_.deliver();
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(journals_[0].messages().size(), 1u);
  EXPECT_EQ(at(0, LinkState::reset), 0u);
}

TEST_F(MemoryLinkTest, AResetIsReportedBeforeAnythingNewer) {
  ASSERT_TRUE(send(1));
  network_.reset(node_id(1), node_id(2));
  ASSERT_TRUE(send(2));
  network_.deliver();
  EXPECT_EQ(received(), Streams{2});
  auto events = journals_[1].all();
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[events.size() - 3].state->state, LinkState::reset);
  EXPECT_EQ(events[events.size() - 2].state->state, LinkState::up);
  EXPECT_TRUE(events.back().received.has_value());
}

TEST_F(MemoryLinkTest, ADelayHoldsBackWithoutReordering) {
  network_.set_delay(node_id(1), node_id(2), std::chrono::milliseconds(5));
  ASSERT_TRUE(send(1));
  network_.set_delay(node_id(1), node_id(2), Duration::zero());
  ASSERT_TRUE(send(2));
  network_.deliver(Time(std::chrono::milliseconds(4)));
  EXPECT_TRUE(received().empty());
  network_.deliver(Time(std::chrono::milliseconds(5)));
  EXPECT_EQ(received(), (Streams{1, 2}));
}

TEST_F(MemoryLinkTest, ALostDatagramIsSilentAndALostStreamMessageIsAReset) {
  network_.set_fate([](const NodeId&, const NodeId&, Lane, const Message& message) {
    return message.stream == 1 ? MemoryNetwork::Fate::lose : MemoryNetwork::Fate::deliver;
  });
  ASSERT_TRUE(send(1, Topic::membership));
  ASSERT_TRUE(send(2, Topic::membership));
  network_.deliver();
  EXPECT_EQ(received(), Streams{2});
  EXPECT_EQ(at(1, LinkState::reset), 0u);
  ASSERT_TRUE(send(1, Topic::job));
  ASSERT_TRUE(send(3, Topic::job));
  network_.deliver();
  EXPECT_EQ(received(), (Streams{2, 3}));
  EXPECT_EQ(at(1, LinkState::reset), 1u);
}

}  // namespace
}  // namespace gpunode::transport::test
