// Which replica is asked next: the idler and the nearer one, an affinity's own while it keeps up.
#include "actors/node/replica_choice.hpp"

#include <gtest/gtest.h>

#include <map>

namespace gpunode::node {
namespace {

using namespace std::chrono_literals;

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}

class Replicas : public ::testing::Test {
 protected:
  NodeId chosen(std::optional<std::uint64_t> affinity = {}, int count = 3) {
    std::vector<NodeId> all;
    for (int number = 1; number <= count; ++number) all.push_back(node(number));
    choice_.arrange(all, "m", affinity, now_);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(count)) << "none is lost";
    return all[0];
  }
  std::map<NodeId, int> counts(int calls, std::optional<std::uint64_t> affinity = {}) {
    std::map<NodeId, int> counts;
    for (int call = 0; call < calls; ++call) ++counts[chosen(affinity)];
    return counts;
  }
  void answers(int number, Duration in, int times = 10) {
    for (int time = 0; time < times; ++time) {
      choice_.sent("m", node(number));
      choice_.ended("m", node(number), now_, in);
    }
  }

  ReplicaChoice choice_{7};
  Time now_ = Time{} + 1h;
};

TEST_F(Replicas, AreAskedAlikeWhereNothingIsKnown) {
  for (const auto& [id, count] : counts(3000)) EXPECT_NEAR(count, 1000, 120);
}

TEST_F(Replicas, ThatAnswerSoonerAreAskedMore) {
  answers(1, 2ms);
  answers(2, 20ms);
  answers(3, 200ms);
  const auto asked = counts(3000);
  // Of two drawn the better one: the best in two thirds of all pairs, the worst in none.
  EXPECT_NEAR(asked.at(node(1)), 2000, 150);
  EXPECT_NEAR(asked.at(node(2)), 1000, 150);
  EXPECT_FALSE(asked.contains(node(3)));
}

TEST_F(Replicas, ThatHaveMuchToDoAreAskedLess) {
  for (const int number : {1, 2, 3}) answers(number, 10ms);
  std::map<NodeId, int> under_way;
  for (int call = 0; call < 300; ++call) {
    const NodeId to = chosen();
    choice_.sent("m", to);
    ++under_way[to];
  }
  for (const auto& [id, count] : under_way) EXPECT_NEAR(count, 100, 10);
}

TEST_F(Replicas, ThatTookLongAreAskedAgainByAndBy) {
  answers(1, 2ms);
  answers(2, 2ms);
  answers(3, 500ms);
  EXPECT_FALSE(counts(300).contains(node(3)));
  now_ += 5min;
  answers(1, 2ms);
  answers(2, 2ms);
  EXPECT_TRUE(counts(300).contains(node(3)));
}

TEST_F(Replicas, OfAnAffinityStayTheSame) {
  std::map<NodeId, int> owners;
  for (std::uint64_t affinity = 0; affinity < 300; ++affinity) {
    const auto asked = counts(5, affinity);
    EXPECT_EQ(asked.size(), 1u);
    ++owners[asked.begin()->first];
  }
  for (const auto& [id, count] : owners) EXPECT_NEAR(count, 100, 35);
}

TEST_F(Replicas, OfAnAffinityGiveWayWhereOthersAreMuchSooner) {
  for (const int number : {1, 2, 3}) answers(number, 10ms);
  const NodeId own = chosen(5);
  choice_.sent("m", own);
  EXPECT_EQ(counts(20, 5).size(), 1u) << "twice as long is not too long";
  for (int call = 0; call < 9; ++call) choice_.sent("m", own);
  EXPECT_FALSE(counts(20, 5).contains(own));
  for (int call = 0; call < 10; ++call) choice_.ended("m", own, now_, 10ms);
  EXPECT_EQ(chosen(5), own) << "it is its own again";
}

TEST_F(Replicas, OfOtherNamesAreCountedApart) {
  for (int call = 0; call < 50; ++call) choice_.sent("other", node(1));
  for (const auto& [id, count] : counts(3000)) EXPECT_NEAR(count, 1000, 120);
}

TEST_F(Replicas, ThatWereAskedInVainAreNoQuicker) {
  answers(1, 10ms);
  answers(2, 10ms);
  answers(3, 10ms);
  choice_.sent("m", node(3));
  choice_.ended("m", node(3), now_, std::nullopt);
  for (const auto& [id, count] : counts(3000)) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace gpunode::node
