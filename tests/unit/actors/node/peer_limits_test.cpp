// What one peer may ask for, at a clock that stands still: rates and shares of each kind, that one
// peer's are not another's, and that each message and call between nodes has some.
#include "actors/node/peer_limits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "actors/node/needed_rights.hpp"

namespace gpunode::node {
namespace {

class StillClock final : public Clock {
 public:
  Time now() const override { return now_; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  void advance(Duration by) { now_ += by; }

 private:
  Time now_ = Time{} + std::chrono::hours(1);
};

class PeerLimitsTest : public ::testing::TestWithParam<PeerLimit> {
 protected:
  PeerLimitsTest() {
    one_.value[0] = std::byte{1};
    other_.value[0] = std::byte{2};
  }
  std::uint64_t refused() {
    return metrics_.counter("gpunode_peer_refused_total", "", {{"load", std::string(limit().name)}})
        .value();
  }
  const PeerLimit& limit() const { return GetParam(); }

  NodeId one_, other_;
  StillClock clock_;
  telemetry::Registry metrics_;
  std::vector<std::pair<NodeId, std::string>> told_;
  security::Authority authority_{
      {}, nullptr, nullptr, nullptr, [this](const NodeId& by, std::string_view what) {
        told_.emplace_back(by, what);
      }};
  PeerLimits limits_{PeerLimits::Options{&clock_, &metrics_, &authority_}};
};

std::string name_of(const ::testing::TestParamInfo<PeerLimit>& limit) {
  return std::string(limit.param.name);
}

std::vector<PeerLimit> bounded() {
  std::vector<PeerLimit> some;
  for (const PeerLimit& limit : peer_limits())
    if (limit.over != WhenOver::taken) some.push_back(limit);
  return some;
}

TEST_P(PeerLimitsTest, its_rate_ends_after_the_burst_and_comes_back_with_time) {
  for (int i = 0; i < static_cast<int>(limit().burst); ++i)
    ASSERT_TRUE(limits_.enter(one_, limit().load, 0)) << i;
  EXPECT_FALSE(limits_.enter(one_, limit().load, 0));
  EXPECT_EQ(refused(), 1u);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].first, one_);
  EXPECT_NE(told_[0].second.find(limit().name), std::string::npos);
  EXPECT_TRUE(limits_.enter(other_, limit().load, 0)) << "another's is its own";
  clock_.advance(std::chrono::seconds(1));
  const int again = static_cast<int>(std::min(limit().per_second, limit().burst));
  for (int i = 0; i < again; ++i) ASSERT_TRUE(limits_.enter(one_, limit().load, 0)) << i;
  EXPECT_FALSE(limits_.enter(one_, limit().load, 0));
}

TEST_P(PeerLimitsTest, many_bytes_count_as_several) {
  constexpr std::size_t kMany = std::size_t{1} << 20;
  const int most = static_cast<int>(limit().burst / 17);
  int taken = 0;
  while (taken <= most && limits_.enter(one_, limit().load, kMany)) ++taken;
  EXPECT_EQ(taken, most);
}

TEST_P(PeerLimitsTest, what_waits_of_a_peer_is_bounded_and_takes_nothing_from_others) {
  constexpr std::size_t kPart = std::size_t{256} << 10;
  std::vector<PeerLimits::Place> waiting;
  while (limits_.has_room(one_, limit().load) && waiting.size() < 4096) {
    auto place = limits_.enter(one_, limit().load, kPart);
    if (!place) break;
    waiting.push_back(std::move(place));
  }
  ASSERT_FALSE(waiting.empty());
  EXPECT_LE((waiting.size() - 1) * kPart, limit().bytes);
  EXPECT_GE((waiting.size() + 1) * (kPart + 1024), limit().bytes);
  EXPECT_TRUE(limits_.has_room(other_, limit().load));
  EXPECT_TRUE(limits_.enter(other_, limit().load, kPart));
  if (limit().over == WhenOver::held_back) {
    EXPECT_FALSE(limits_.has_room(one_, limit().load));
  } else {
    EXPECT_FALSE(limits_.enter(one_, limit().load, kPart));
    EXPECT_FALSE(limits_.hold(one_, limit().load, kPart));
    EXPECT_EQ(refused(), 3u);
  }
  waiting.clear();
  EXPECT_TRUE(limits_.has_room(one_, limit().load));
  EXPECT_TRUE(limits_.hold(one_, limit().load, kPart));
}

INSTANTIATE_TEST_SUITE_P(Loads, PeerLimitsTest, ::testing::ValuesIn(bounded()), name_of);

TEST(PeerLimitsTable, all_that_may_wait_of_a_peer_is_less_than_200_MB) {
  std::size_t all = 0;
  for (const PeerLimit& limit : peer_limits()) all += limit.bytes;
  EXPECT_LT(all, 200'000'000u);
}

TEST(PeerLimitsTable, each_message_and_call_between_nodes_has_a_limit) {
  for (const NeededRights& row : needed_rights()) {
    if (row.kind == Asked::command) continue;
    const bool none = row.kind == Asked::topic && (row.name == "call" || row.name == "reply");
    EXPECT_EQ(load_of(row.kind, row.name) == Load::none, none) << row.name;
  }
  EXPECT_EQ(load_of(Asked::call, "translate"), Load::service);
  EXPECT_EQ(load_of(Asked::call, "job.everything"), Load::question);
}

TEST(PeerLimitsTable, a_place_outlives_its_limits) {
  StillClock clock;
  telemetry::Registry metrics;
  const security::Authority nobody{};
  PeerLimits::Place place;
  {
    PeerLimits limits({&clock, &metrics, &nobody});
    place = limits.enter({}, Load::job, 100);
  }
  EXPECT_TRUE(place);
  place.reset();
}

}  // namespace
}  // namespace gpunode::node
