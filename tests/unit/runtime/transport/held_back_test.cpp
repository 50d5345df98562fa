// A peer whose bulk is not to be read for a while has to wait; what others send is read meanwhile, and
// nothing of it is lost.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/runtime/transport/link_fixture.hpp"

namespace gpunode::transport::test {
namespace {

TEST(HeldBack, who_is_not_read_waits_alone_and_loses_nothing) {
  constexpr int kReader = 1, kHeld = 2, kOther = 3;
  constexpr std::size_t kMessages = 40;
  MeshNet net;
  Journal journals[3];
  std::atomic<bool> holds{false};
  std::atomic<int> asked{0};
  LinkEvents events = journals[0].events();
  events.may_read = [&](const NodeId& from) {
    if (from != node_id(kHeld)) return true;
    ++asked;
    return !holds.load();
  };
  auto reader = net.open_mesh(kReader, 1, std::move(events), {});
  auto held = net.open_mesh(kHeld, 1, journals[1].events(), {});
  auto other = net.open_mesh(kOther, 1, journals[2].events(), {});
  net.introduce({{kReader, reader.get()}, {kHeld, held.get()}, {kOther, other.get()}});
  const NodeId to = node_id(kReader);
  ASSERT_TRUE(send_when_up(*held, journals[1], to, Lane::bulk, text_message(0, "open")));
  ASSERT_TRUE(send_when_up(*other, journals[2], to, Lane::bulk, text_message(0, "open")));
  ASSERT_TRUE(journals[0].wait_messages(2));
  holds = true;
  for (std::size_t i = 1; i <= kMessages; ++i) {
    ASSERT_TRUE(held->send(to, Lane::bulk, text_message(i, "held", 1 << 20)));
    ASSERT_TRUE(other->send(to, Lane::bulk, text_message(i, "other", 1 << 10)));
  }
  const auto count_of = [&](int from) {
    std::size_t count = 0;
    for (const Received& one : journals[0].messages()) count += one.from == node_id(from);
    return count;
  };
  ASSERT_TRUE(journals[0].wait_messages(2 + kMessages));
  EXPECT_EQ(count_of(kOther), 1 + kMessages);
  // One may have been asked for before it was to wait.
  EXPECT_LE(count_of(kHeld), 2u);
  holds = false;
  ASSERT_TRUE(journals[0].wait_messages(2 + 2 * kMessages));
  std::uint64_t next = 0;
  for (const Received& one : journals[0].messages())
    if (one.from == node_id(kHeld)) {
      EXPECT_EQ(one.message.stream, next++);
    }
  EXPECT_EQ(next, 1 + kMessages);
  EXPECT_EQ(journals[0].count(node_id(kHeld), Lane::bulk, LinkState::reset), 0u);
  for (MeshLink* link : {reader.get(), held.get(), other.get()}) link->close();
}

}  // namespace
}  // namespace gpunode::transport::test
