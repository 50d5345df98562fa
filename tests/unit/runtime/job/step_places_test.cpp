#include "runtime/job/step_places.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace gpunode::job {
namespace {

using collective::ChunkLayout;
using collective::ChunkPlaces;

NodeId node(std::uint8_t number) {
  NodeId id;
  id.value[0] = std::byte{number};
  return id;
}

class StepPlacesTest : public ::testing::Test {
 protected:
  StepPlacesTest() {
    auto values = std::make_shared<std::vector<float>>(10);
    std::vector<std::optional<ChunkPlaces::Use>> uses = {
        ChunkPlaces::Use{0, std::nullopt}, ChunkPlaces::Use{0, collective::TreeNode{1, 0}},
        ChunkPlaces::Use{0, std::nullopt}};
    places_.open({name_,
                  {node(1), node(2)},
                  3,
                  std::make_shared<ChunkPlaces>(values, ChunkLayout{10, 4}, uses)});
  }
  static Bytes body(const collective::ExchangeName& name,
                    const collective::ExchangeMessage& message) {
    return collective::encode_exchange(name, message).body;
  }
  std::size_t lent(const NodeId& from, ByteView body) {
    return places_.lend(from, body, 16).view.size();
  }

  const collective::ExchangeName name_{5, 7, {1, 9}, {3, 4}};
  StepPlaces places_;
};

TEST_F(StepPlacesTest, are_those_of_a_members_results_and_partial_sums) {
  EXPECT_EQ(lent(node(1), body(name_, collective::ResultChunk{0, {}, {}})), 16u);
  EXPECT_EQ(lent(node(1), body(name_, collective::PartialChunk{1, {1, 0}, {}, {}})), 16u);
  EXPECT_EQ(lent(node(1), body(name_, collective::PartialChunk{1, {1, 1}, {}, {}})), 0u);
  EXPECT_EQ(lent(node(2), body(name_, collective::ResultChunk{0, {}, {}})), 0u);
  EXPECT_EQ(lent(node(3), body(name_, collective::ResultChunk{0, {}, {}})), 0u);
  EXPECT_EQ(lent(node(1), body(name_, collective::ResultChunk{3, {}, {}})), 0u);
  EXPECT_EQ(lent(node(1), body(name_, collective::Done{})), 0u);
}

TEST_F(StepPlacesTest, belong_to_one_step_of_one_view) {
  for (int field = 0; field < 5; ++field) {
    collective::ExchangeName other = name_;
    if (field == 0) ++other.view_id;
    if (field == 1) ++other.step;
    if (field == 2) ++other.history.turn;
    if (field == 3) ++other.plan.low;
    if (field == 4) ++other.history.mark;
    EXPECT_EQ(lent(node(1), body(other, collective::ResultChunk{0, {}, {}})), 0u) << field;
  }
  places_.close();
  EXPECT_EQ(lent(node(1), body(name_, collective::ResultChunk{0, {}, {}})), 0u);
}

TEST_F(StepPlacesTest, are_lent_to_no_noise) {
  Rng rng(1);
  const Bytes good = body(name_, collective::ResultChunk{2, {}, {}});
  for (int round = 0; round < 2000; ++round) {
    Bytes bad = good;
    bad.resize(rng.below(good.size()));
    for (std::byte& one : bad)
      if (rng.chance(0.05)) one ^= std::byte(1 << rng.below(8));
    (void)places_.lend(node(1), bad, rng.below(40));
  }
}

}  // namespace
}  // namespace gpunode::job
