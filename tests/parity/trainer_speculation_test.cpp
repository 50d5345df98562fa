// A trainer that speculates a step's sum part by part, and does forward of the next step on it,
// ends in the very state of one that waits for the whole sum; and what does not come true leaves
// nothing.
#include "actors/compute/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/letters_source.hpp"

namespace gpunode::compute {
namespace {

using collective::SharedFloats;
using collective::TreeNode;

constexpr std::uint32_t kSlices = 8;
constexpr std::uint64_t kSteps = 4;
constexpr std::uint64_t kMuch = std::uint64_t{1} << 30;

class TrainerSpeculationTest : public ::testing::Test {
 protected:
  TrainerSpeculationTest() {
    spec_.train.batch = 20;  // some slices have three samples, some two
    spec_.train.slices = kSlices;
    spec_.train.steps = kSteps;
    spec_.train.clip = 100;
    spec_.train.warmup_steps = 1;
    source_ = letters_source();
    model_ = std::move(*model::make_model(
        "gpt", {{"layers", "3"}, {"channels", "64"}, {"heads", "2"}, {"context", "16"}}));
  }

  std::unique_ptr<Trainer> trainer(int workers = 1, std::uint64_t budget = kMuch) {
    auto data = dataset::TextDataset::create(source_, {.context = 16});
    return std::move(*Trainer::create(
        {.model = model_,
         .devices = {&device_},
         .spec = spec_,
         .reader = ingest::SliceReader(*data, {spec_.train.seed, spec_.train.batch, kSlices}),
         .clock = &clock_,
         .workers = workers,
         .slice_budget_bytes = budget}));
  }

  // The sums of these nodes for the next step, added up: any vector will do for a total.
  SharedFloats total_of(Trainer& trainer, const std::vector<TreeNode>& nodes) {
    trainer.want(trainer.step() + 1, nodes);
    std::map<TreeNode, SharedFloats> sums;
    std::mutex mutex;
    do {
      EXPECT_TRUE(trainer.compute_some([&](const SumRange& range) {
        std::lock_guard lock(mutex);
        sums[range.node] = range.sum;
      }));
    } while (!trainer.idle());
    auto total = std::make_shared<std::vector<float>>(trainer.element_count());
    for (const auto& [node, sum] : sums)
      for (std::size_t i = 0; i < total->size(); ++i) (*total)[i] += (*sum)[i];
    return total;
  }

  // In pieces of odd sizes, the last ones first or the first ones first.
  static void update_speculatively(Trainer& trainer, const SharedFloats& total, bool backwards,
                                   std::size_t leave_out = 0) {
    std::vector<collective::Elements> pieces;
    for (std::uint64_t first = 0; first < total.size();) {
      const std::uint64_t count = std::min<std::uint64_t>(9000 + first % 777, total.size() - first);
      pieces.push_back({first, count});
      first += count;
    }
    pieces.resize(pieces.size() - leave_out);
    if (backwards) std::ranges::reverse(pieces);
    for (const auto& piece : pieces)
      ASSERT_TRUE(
          trainer.update_speculatively(trainer.step() + 1, total, piece.first, piece.count));
  }

  void expect_same_steps(Trainer& waits, Trainer& speculates, const std::vector<TreeNode>& nodes,
                         bool backwards) {
    while (waits.step() < kSteps) {
      const SharedFloats total = total_of(waits, nodes), again = total_of(speculates, nodes);
      ASSERT_EQ(*total, *again) << "of step " << waits.step() + 1;
      update_speculatively(speculates, again, backwards);
      expect_same_apply(waits, total, speculates, again);
    }
  }

  static void expect_same_apply(Trainer& waits, const SharedFloats& total, Trainer& speculates,
                                const SharedFloats& again) {
    const auto wanted = waits.apply(waits.step() + 1, total);
    const auto report = speculates.apply(speculates.step() + 1, again);
    ASSERT_TRUE(wanted && report);
    EXPECT_EQ(report->state, wanted->state);
    EXPECT_EQ(report->gradient_norm, wanted->gradient_norm);
    EXPECT_EQ(report->learning_rate, wanted->learning_rate);
    EXPECT_EQ(report->loss, wanted->loss);
    EXPECT_EQ(report->skipped, wanted->skipped);
    EXPECT_EQ(report->state, block_digest_of(speculates.state_bytes()->view));
  }

  job::JobSpec spec_;
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  NodeDevice device_{"cpu", *backend_};
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<dataset::TextSource> source_;
};

TEST_F(TrainerSpeculationTest, SpeculatedStepsEndInTheSameState) {
  for (int workers : {1, 3})
    for (std::uint64_t budget : {kMuch, std::uint64_t{0}})
      for (bool backwards : {false, true})
        expect_same_steps(*trainer(), *trainer(workers, budget), {{2, 1}, {1, 0}}, backwards);
}

TEST_F(TrainerSpeculationTest, AClippedStepIsAppliedAsAWholeOne) {
  spec_.train.clip = 1e-3;
  expect_same_steps(*trainer(), *trainer(), {{3, 0}}, false);
}

TEST_F(TrainerSpeculationTest, ASumThatIsNotFiniteIsSkipped) {
  auto waits = trainer(), speculates = trainer();
  const SharedFloats total = total_of(*waits, {{3, 0}});
  auto broken = std::make_shared<std::vector<float>>(*total_of(*speculates, {{3, 0}}));
  (*broken)[5] = std::numeric_limits<float>::infinity();
  update_speculatively(*speculates, broken, false);
  expect_same_apply(*waits, broken, *speculates, broken);
  expect_same_steps(*waits, *speculates, {{3, 0}}, false);
}

TEST_F(TrainerSpeculationTest, AStepThatEndsWithAnotherSumLeavesNothing) {
  for (std::size_t left_out : {0, 2}) {
    auto waits = trainer(2), speculates = trainer(2);
    const SharedFloats total = total_of(*waits, {{2, 0}});
    total_of(*speculates, {{2, 0}});
    auto other = std::make_shared<std::vector<float>>(total.size(), 1e-3f);
    const Digest before = *speculates->state_digest();
    update_speculatively(*speculates, other, false, left_out);
    EXPECT_EQ(*speculates->state_digest(), before);
    EXPECT_EQ(block_digest_of(speculates->state_bytes()->view), before);
    expect_same_apply(*waits, total, *speculates, total);
    expect_same_steps(*waits, *speculates, {{3, 0}}, true);
  }
}

TEST_F(TrainerSpeculationTest, SlicesOfTheSameStepAreComputedWithTheWeightsThatStand) {
  auto waits = trainer(), speculates = trainer();
  total_of(*waits, {{2, 0}});
  update_speculatively(*speculates, total_of(*speculates, {{2, 0}}), false);
  const SharedFloats total = total_of(*waits, {{2, 0}, {2, 1}});
  const SharedFloats again = total_of(*speculates, {{2, 0}, {2, 1}});
  EXPECT_EQ(*total, *again);
  update_speculatively(*speculates, again, false);
  expect_same_apply(*waits, total, *speculates, again);
  expect_same_steps(*waits, *speculates, {{2, 1}}, false);
}

TEST_F(TrainerSpeculationTest, OtherSlicesThanThoseOfTheLastStepAreComputedAnew) {
  auto waits = trainer(), speculates = trainer();
  for (const std::vector<TreeNode>& nodes :
       {std::vector<TreeNode>{{1, 0}}, {{2, 0}}, {{0, 7}, {1, 0}}, {{1, 2}}}) {
    const SharedFloats total = total_of(*waits, nodes), again = total_of(*speculates, nodes);
    ASSERT_EQ(*total, *again);
    update_speculatively(*speculates, again, false);
    expect_same_apply(*waits, total, *speculates, again);
  }
}

TEST_F(TrainerSpeculationTest, AnInstalledStateReplacesWhatWasSpeculated) {
  auto waits = trainer(), speculates = trainer();
  const SharedBytes initial = *waits->state_bytes();
  const SharedFloats total = total_of(*waits, {{3, 0}});
  update_speculatively(*speculates, total_of(*speculates, {{3, 0}}), false);
  ASSERT_TRUE(speculates->install(0, initial.view));
  EXPECT_EQ(*total_of(*speculates, {{3, 0}}), *total);
  expect_same_apply(*waits, total, *speculates, total);
}

TEST_F(TrainerSpeculationTest, EvaluationSeesTheStateThatStands) {
  auto waits = trainer(), speculates = trainer();
  const SharedFloats total = total_of(*waits, {{3, 0}}), again = total_of(*speculates, {{3, 0}});
  update_speculatively(*speculates, again, false);
  EXPECT_EQ(speculates->evaluate()->loss, waits->evaluate()->loss);
  expect_same_apply(*waits, total, *speculates, again);
  expect_same_steps(*waits, *speculates, {{3, 0}}, false);
}

}  // namespace
}  // namespace gpunode::compute
