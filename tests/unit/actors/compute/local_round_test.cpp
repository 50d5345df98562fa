#include "actors/compute/local_round.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace gpunode::compute {
namespace {

using collective::DataFingerprint;
using collective::TreeNode;
using ::testing::ElementsAre;
using ::testing::FloatNear;

// One weight. A slice's gradient is its number + 1; an inner step goes down by a tenth of the mean
// gradient, and the moments count the updates that they saw.
class Round : public ::testing::Test {
 protected:
  LocalRound make(bool ahead = false) {
    LocalRound::Options options;
    options.rounds = 3;
    options.ahead = ahead;
    options.predict = [](std::span<const float> change, std::span<float> weights) {
      weights[0] -= 10 * change[0];
    };
    options.inner_steps = 3;
    options.tree = collective::Tree::of_slices(4);
    options.sum_slices = [this](std::uint64_t data_step, const std::vector<std::uint32_t>& slices,
                                std::span<const float> weights) -> Result<SliceSums> {
      SliceSums sums{{0, 0}, {}};
      saw_ = weights[0];
      for (std::uint32_t slice : slices) {
        read_.emplace_back(data_step, slice);
        sums.sum[0] += static_cast<float>(slice + 1);
        sums.sum[1] += 6;  // loss
        sums.data_fingerprint[slice] = {{data_step, slice}, 1};
      }
      return sums;
    };
    options.update = [this](std::uint64_t, std::span<const float> gradient, std::uint64_t samples,
                            std::span<float> weights, Moments& moments) -> Result<void> {
      moments.first.resize(1);
      seen_ = ++moments.first[0];
      weights[0] -= 0.1f * gradient[0] / static_cast<float>(samples);
      return {};
    };
    return LocalRound(std::move(options));
  }

  // Until nothing is missing; the sums by node.
  std::map<TreeNode, NodeSum> finish(LocalRound& round) {
    std::map<TreeNode, NodeSum> sums;
    do {
      auto done = round.advance(weights_);
      EXPECT_TRUE(done);
      for (NodeSum& sum : *done) sums.emplace(sum.node, sum);
    } while (!round.missing().empty());
    return sums;
  }

  std::vector<float> weights_ = {10};
  std::vector<std::pair<std::uint64_t, std::uint32_t>> read_;
  float seen_ = 0, saw_ = 0;  // of moments, of weights
};

TEST_F(Round, gives_each_slice_its_share_of_the_change_and_reads_the_samples_of_its_inner_steps) {
  LocalRound round = make();
  round.want(2, {{1, 0}});
  const auto sums = finish(round);
  ASSERT_EQ(sums.size(), 1u);
  const NodeSum& sum = sums.at({1, 0});
  // Three steps of a tenth of the mean gradient 1.5, for two slices.
  EXPECT_THAT(*sum.sum->host, ElementsAre(FloatNear(2 * 0.45f, 1e-5f), FloatNear(2 * 6.0f, 1e-5f)));
  EXPECT_EQ(sum.data_fingerprint.sample_count, 6u);
  DataFingerprint wanted;
  for (std::uint64_t step : {6, 7, 8})
    for (std::uint64_t slice : {0, 1}) wanted += DataFingerprint{{step, slice}, 1};
  EXPECT_EQ(sum.data_fingerprint, wanted);
  EXPECT_EQ(read_.size(), 6u);
}

TEST_F(Round, computes_slices_that_are_taken_over_from_the_same_weights_and_merges_them) {
  LocalRound round = make();
  round.want(0, {{0, 2}});
  finish(round);
  round.want(0, {{1, 1}});  // slice 3 is new
  EXPECT_THAT(round.missing(), ElementsAre(3u));
  const auto sums = finish(round);
  EXPECT_THAT(*sums.at({1, 1}).sum->host,
              ElementsAre(FloatNear(0.9f + 1.2f, 1e-5f), FloatNear(12, 1e-5f)));
  EXPECT_EQ(seen_, 3) << "the second run starts from the moments of the round's beginning";
}

TEST_F(Round, goes_on_with_its_run_unless_a_slice_of_it_is_no_longer_wanted) {
  LocalRound round = make();
  round.want(0, {{0, 0}, {0, 1}});
  ASSERT_TRUE(round.advance(weights_));
  round.want(0, {{1, 0}, {0, 2}});
  auto sums = finish(round);
  EXPECT_EQ(sums.size(), 2u);
  EXPECT_EQ(read_.size(), 6u + 3u) << "slices 0 and 1 in one run, slice 2 in another";
  round.want(1, {{0, 0}, {0, 1}});
  read_.clear();
  ASSERT_TRUE(round.advance(weights_));
  round.want(1, {{0, 1}});
  finish(round);
  EXPECT_EQ(read_.size(), 2u + 3u) << "begun anew for slice 1";
}

TEST_F(Round, keeps_its_moments_only_once_the_round_was_applied) {
  LocalRound round = make();
  for (float before : {0.0f, 0.0f}) {
    round.want(0, {{2, 0}});
    finish(round);
    EXPECT_EQ(seen_, before + 3);
    round.discard();
  }
  round.want(0, {{2, 0}});
  finish(round);
  round.on_applied(weights_);
  round.want(1, {{2, 0}});
  finish(round);
  EXPECT_EQ(seen_, 6);
  round.forget();
  round.want(1, {{2, 0}});
  finish(round);
  EXPECT_EQ(seen_, 3);
}

TEST_F(Round, begins_the_next_one_while_its_changes_travel_and_moves_with_what_the_others_did) {
  LocalRound round = make(true);
  round.want(0, {{1, 0}});
  EXPECT_THAT(*finish(round).at({1, 0}).sum->host, ElementsAre(FloatNear(0.9f, 1e-5f), 12));
  EXPECT_FALSE(round.idle());
  read_.clear();
  ASSERT_TRUE(round.advance(weights_));
  EXPECT_EQ(read_[0], std::pair(std::uint64_t{3}, 0u));
  EXPECT_NEAR(saw_, 10 - 10 * 0.45f, 1e-4f) << "where it leads if all changed alike";
  EXPECT_TRUE(round.idle()) << "at most half of it is done ahead";
  weights_ = {5};
  round.on_applied(weights_);
  round.want(1, {{1, 0}});
  const auto sums = finish(round);
  EXPECT_EQ(read_.size(), 6u) << "goes on with what was done ahead";
  EXPECT_NEAR(saw_, 5 - 2 * 0.15f, 1e-4f) << "in its last step";
  EXPECT_THAT(*sums.at({1, 0}).sum->host, ElementsAre(FloatNear(0.9f, 1e-5f), 12));
  EXPECT_EQ(seen_, 6) << "one sequence of moments";
  ASSERT_TRUE(round.advance(weights_));
  round.on_applied(weights_);
  round.want(2, {{1, 0}});
  finish(round);
  EXPECT_TRUE(round.idle()) << "no round comes after the last one";
}

TEST_F(Round, that_was_begun_ahead_is_given_up_where_a_slice_of_it_is_no_longer_wanted) {
  LocalRound round = make(true);
  round.want(0, {{0, 0}, {0, 1}});
  finish(round);
  ASSERT_TRUE(round.advance(weights_));
  round.on_applied(weights_);
  round.want(1, {{0, 1}});
  read_.clear();
  EXPECT_EQ(finish(round).at({0, 1}).data_fingerprint.sample_count, 3u);
  EXPECT_THAT(read_, ElementsAre(std::pair(std::uint64_t{3}, 1u), std::pair(std::uint64_t{4}, 1u),
                                 std::pair(std::uint64_t{5}, 1u)));
  ASSERT_TRUE(round.advance(weights_));
  round.on_applied(weights_);
  round.want(2, {{0, 1}, {0, 2}});
  read_.clear();
  EXPECT_EQ(finish(round).size(), 2u);
  EXPECT_EQ(read_.size(), 2u + 3u) << "slice 1 was begun ahead, slice 2 was not";
}

TEST_F(Round, that_was_begun_ahead_is_void_with_the_weights_it_began_from) {
  LocalRound round = make(true);
  round.want(0, {{1, 0}});
  finish(round);
  ASSERT_TRUE(round.advance(weights_));
  round.discard();
  read_.clear();
  round.want(0, {{1, 0}});
  finish(round);
  EXPECT_EQ(read_[0], std::pair(std::uint64_t{0}, 0u));
  EXPECT_EQ(read_.size(), 6u);
}

}  // namespace
}  // namespace gpunode::compute
