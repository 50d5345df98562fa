#include "runtime/directory/directory.hpp"

#include <gtest/gtest.h>

#include "runtime/directory/directory_codec.hpp"
#include "tests/unit/runtime/directory/signing.hpp"

namespace gpunode::directory {
namespace {

using namespace std::chrono_literals;

// A few directories and the messages between them, delivered when the test says so.
class DirectoryTest : public ::testing::Test {
 protected:
  struct Node {
    std::unique_ptr<Directory> map;
    std::vector<Changed> changes;
  };
  struct Flying {
    int from;
    NodeId to;
    Bytes bytes;
  };

  void start(int index, Boot epoch = 1) {
    nodes[index].map =
        std::make_unique<Directory>(test_id(index), epoch, config, test_signing(index), index, now);
    nodes[index].changes.clear();
  }
  void meet(int a, int b) {
    take(a, nodes[a].map->on_peer_up(now, test_id(b)));
    take(b, nodes[b].map->on_peer_up(now, test_id(a)));
  }
  void take(int index, Actions actions) {
    for (Action& action : actions) {
      if (auto* send = std::get_if<Send>(&action))
        flying.push_back({index, send->to, std::move(send->bytes)});
      else
        nodes[index].changes.push_back(std::get<Changed>(action));
    }
  }
  void set(int index, std::string_view key, std::string_view value) {
    auto actions = nodes[index].map->set(now, key, as_bytes(value));
    ASSERT_TRUE(actions) << actions.error().message();
    take(index, std::move(*actions));
  }
  void erase(int index, std::string_view key) { take(index, nodes[index].map->erase(now, key)); }
  // Delivers until nothing flies; loses everything instead if asked to.
  void settle(bool lose = false) {
    while (!flying.empty()) {
      const Flying message = std::move(flying.front());
      flying.erase(flying.begin());
      const int to = static_cast<int>(message.to.value[0]);
      if (lose || !nodes.contains(to)) continue;
      take(to, nodes[to].map->on_message(now, test_id(message.from), message.bytes));
    }
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      now += config.round;
      for (auto& [index, node] : nodes) take(index, node.map->on_tick(now));
      settle();
    }
  }
  std::string seen(int index, int owner, std::string_view key) {
    const auto value = nodes[index].map->get(test_id(owner), key);
    return value ? std::string(as_text(*value)) : "-";
  }

  DirectoryConfig config;
  Time now = Time{} + 1h;
  std::map<int, Node> nodes;
  std::vector<Flying> flying;
};

TEST_F(DirectoryTest, AnUpdateReachesLivePeersAtOnce) {
  start(1);
  start(2);
  meet(1, 2);
  rounds(2);
  set(1, "service/a", "up");
  settle();
  EXPECT_EQ(seen(2, 1, "service/a"), "up");
  ASSERT_EQ(nodes[2].changes.size(), 1u);
  EXPECT_EQ(nodes[2].changes[0].key, "service/a");
}

TEST_F(DirectoryTest, WhatWasLostIsFetchedInALaterRound) {
  start(1);
  start(2);
  meet(1, 2);
  for (int i = 0; i < 20; ++i) set(1, "key" + std::to_string(i), "v");
  erase(1, "key3");
  settle(true);
  EXPECT_EQ(seen(2, 1, "key4"), "-");
  rounds(2);
  EXPECT_EQ(seen(2, 1, "key4"), "v");
  EXPECT_EQ(seen(2, 1, "key3"), "-");
  EXPECT_EQ(nodes[1].map->root(), nodes[2].map->root());
}

TEST_F(DirectoryTest, EqualMapsExchangeOneSmallMessageARound) {
  start(1);
  start(2);
  meet(1, 2);
  set(1, "a", "1");
  rounds(3);
  now += config.round;
  take(1, nodes[1].map->on_tick(now));
  ASSERT_EQ(flying.size(), 1u);
  EXPECT_LT(flying[0].bytes.size(), 150u);
  settle();
}

TEST_F(DirectoryTest, ADeletedKeyDoesNotComeBackThroughAThirdNode) {
  for (const int index : {1, 2, 3}) start(index);
  meet(1, 2);
  meet(2, 3);
  meet(1, 3);
  set(1, "a", "1");
  settle();
  rounds(3);
  ASSERT_EQ(seen(3, 1, "a"), "1");
  erase(1, "a");
  settle(true);
  rounds(6);
  for (const int index : {1, 2, 3}) EXPECT_EQ(seen(index, 1, "a"), "-") << index;
}

TEST_F(DirectoryTest, WhoWasAwayLongerThanTombstonesLastReloadsTheKeyspace) {
  start(1);
  start(2);
  meet(1, 2);
  set(1, "a", "1");
  set(1, "b", "2");
  settle();
  ASSERT_EQ(seen(2, 1, "a"), "1");
  erase(1, "a");
  settle(true);
  now += config.tombstone_grace;
  take(1, nodes[1].map->on_tick(now));
  settle(true);
  rounds(3);
  EXPECT_EQ(seen(2, 1, "a"), "-");
  EXPECT_EQ(seen(2, 1, "b"), "2");
  EXPECT_EQ(nodes[1].map->root(), nodes[2].map->root());
}

TEST_F(DirectoryTest, ABigKeyspaceArrivesInBoundedParts) {
  start(1);
  start(2);
  meet(1, 2);
  const std::string value(4000, 'x');
  for (int i = 0; i < 60; ++i) set(1, "key" + std::to_string(i), value + std::to_string(i));
  settle(true);
  std::size_t largest = 0;
  for (int i = 0; i < 5; ++i) {
    now += config.round;
    for (auto& [index, node] : nodes) take(index, node.map->on_tick(now));
    while (!flying.empty()) {
      largest = std::max(largest, flying[0].bytes.size());
      const Flying message = flying[0];
      flying.erase(flying.begin());
      const int to = static_cast<int>(message.to.value[0]);
      take(to, nodes[to].map->on_message(now, test_id(message.from), message.bytes));
    }
  }
  EXPECT_LE(largest, config.max_message_bytes + 4096);
  EXPECT_EQ(seen(2, 1, "key59"), value + "59");
  EXPECT_EQ(nodes[1].map->root(), nodes[2].map->root());
}

TEST_F(DirectoryTest, ARelayCannotAlterARecord) {
  start(2);
  Delta delta{
      test_id(1), 1, 0, 1, {}, Bytes(16), 0, 1, {{"a", to_bytes(as_bytes("lie")), 1, false}}};
  Message message;
  message.kind = MessageKind::deltas;
  message.deltas = {delta};
  take(2, nodes[2].map->on_peer_up(now, test_id(1)));
  take(2, nodes[2].map->on_message(now, test_id(3), encode(message)));
  EXPECT_EQ(seen(2, 1, "a"), "-");
  EXPECT_EQ(nodes[2].map->rejected_updates(), 1u);
}

TEST_F(DirectoryTest, AHalfSentLieDoesNotKeepTheTruthOut) {
  start(1);
  start(2);
  meet(1, 2);
  Delta lie{
      test_id(1), 99, 0, 500, {}, Bytes(16), 0, 1, {{"a", to_bytes(as_bytes("lie")), 1, false}}};
  Message message;
  message.kind = MessageKind::deltas;
  message.deltas = {lie};
  take(2, nodes[2].map->on_message(now, test_id(3), encode(message)));
  set(1, "a", "truth");
  settle(true);
  rounds(3);
  EXPECT_EQ(seen(2, 1, "a"), "truth");
}

TEST_F(DirectoryTest, AHigherLifeReplacesAllThatAnEarlierOneWrote) {
  start(1);
  start(2);
  meet(1, 2);
  set(1, "old", "1");
  settle();
  ASSERT_EQ(seen(2, 1, "old"), "1");
  start(1, 2);
  meet(1, 2);
  set(1, "new", "2");
  settle();
  rounds(3);
  EXPECT_EQ(seen(2, 1, "old"), "-");
  EXPECT_EQ(seen(2, 1, "new"), "2");
}

TEST_F(DirectoryTest, TheKeyspaceOfTheGoneIsHiddenThenShownThenDropped) {
  start(1);
  start(2);
  meet(1, 2);
  set(1, "a", "1");
  settle();
  take(2, nodes[2].map->on_peer_gone(now, test_id(1)));
  EXPECT_EQ(seen(2, 1, "a"), "-");
  EXPECT_TRUE(nodes[2].map->scan("").empty());
  EXPECT_FALSE(nodes[2].changes.back().value.has_value());
  take(2, nodes[2].map->on_peer_up(now, test_id(1)));
  EXPECT_EQ(seen(2, 1, "a"), "1");

  take(2, nodes[2].map->on_peer_gone(now, test_id(1)));
  nodes[1].map.reset();
  nodes.erase(1);
  now += config.gone_grace;
  rounds(1);
  take(2, nodes[2].map->on_peer_up(now, test_id(1)));
  EXPECT_EQ(seen(2, 1, "a"), "-");
}

TEST_F(DirectoryTest, WhatWasDroppedIsNotTakenAgainFromOthers) {
  for (const int index : {1, 2, 3}) start(index);
  meet(1, 2);
  meet(1, 3);
  meet(2, 3);
  set(1, "a", "1");
  settle();
  nodes.erase(1);
  take(2, nodes[2].map->on_peer_gone(now, test_id(1)));
  now += config.gone_grace;
  take(3, nodes[3].map->on_peer_gone(now, test_id(1)));  // noticed a day later
  const Hash full = nodes[3].map->root();
  rounds(5);
  EXPECT_NE(nodes[2].map->root(), full);
  now += config.gone_grace;
  rounds(5);
  EXPECT_EQ(nodes[2].map->root(), nodes[3].map->root());
}

TEST_F(DirectoryTest, BoundsAreToldToTheWriter) {
  start(1);
  Directory& map = *nodes[1].map;
  EXPECT_EQ(map.set(now, "", {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(map.set(now, std::string(kMaxKeyBytes + 1, 'k'), {}).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(map.set(now, "k", Bytes(kMaxValueBytes + 1)).error().code, ErrorCode::invalid_argument);
  for (std::size_t i = 0; i < kMaxKeysPerOwner; ++i)
    ASSERT_TRUE(map.set(now, "key" + std::to_string(i), as_bytes("v")));
  EXPECT_EQ(map.set(now, "one more", as_bytes("v")).error().code, ErrorCode::resource_exhausted);
  map.erase(now, "key0");
  EXPECT_TRUE(map.set(now, "one more", as_bytes("v")));
}

TEST_F(DirectoryTest, WritingAnEqualValueSendsNothing) {
  start(1);
  start(2);
  meet(1, 2);
  set(1, "a", "1");
  settle();
  set(1, "a", "1");
  EXPECT_TRUE(flying.empty());
}

TEST_F(DirectoryTest, ScanGivesAPrefixInOrder) {
  start(1);
  start(2);
  meet(1, 2);
  set(2, "job/b", "2");
  set(1, "job/a", "1");
  set(1, "jobs", "no");
  set(1, "job/c", "3");
  settle();
  rounds(2);
  const auto found = nodes[2].map->scan("job/");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key, "job/a");
  EXPECT_EQ(found[1].key, "job/c");
  EXPECT_EQ(found[2].owner, test_id(2));
}

TEST_F(DirectoryTest, GarbageIsCountedAndDropped) {
  start(1);
  EXPECT_TRUE(nodes[1].map->on_message(now, test_id(2), as_bytes("garbage garbage")).empty());
  EXPECT_EQ(nodes[1].map->rejected_updates(), 1u);
}

}  // namespace
}  // namespace gpunode::directory
