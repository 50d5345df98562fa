// Attention on tensor cores, compiled for the host: against float64 over shapes that end inside
// tiles and at their borders; equal bits however warps take turns and copies land; and each barrier,
// wait and commit in it is needed, for without it some run goes wrong.
#include "kernels/cuda/toolkit/flash_attention.cu"
#include "tests/parity/attention_kernel_cases.hpp"

namespace gpunode::parity {
namespace {

using Inputs = AttentionInputs<std::uint16_t>;
using Results = AttentionResults<std::uint16_t>;

// Of the largest entry: probabilities, slopes and results are rounded to bf16, 2^-9 each.
constexpr double kTolerance = 8e-3;

const std::vector<AttentionProblem>& problems() {
  static const std::vector<AttentionProblem> all = {
      {1, 1, 1, 1, 64, true, {}},         {2, 5, 2, 1, 64, true, {}},
      {1, 63, 2, 2, 64, true, {}},        {1, 64, 1, 1, 64, false, {}},
      {1, 65, 1, 1, 64, true, {}},        {2, 100, 2, 1, 64, false, {100, 37}},
      {1, 129, 2, 1, 64, true, {}},       {1, 257, 1, 1, 64, true, {}},
      {1, 1, 1, 1, 128, true, {}},        {1, 65, 2, 1, 128, true, {}},
      {2, 33, 1, 1, 128, false, {0, 33}}, {1, 129, 1, 1, 128, true, {}},
      {1, 100, 3, 1, 32, true, {}},       {2, 70, 2, 2, 16, false, {70, 64}},
      {1, 70, 2, 1, 80, true, {}},
  };
  return all;
}

TEST(EmulatedFlashAttention, AgreesWithFloat64) {
  for (const AttentionProblem& problem : problems()) {
    const Inputs inputs(problem);
    emulation::report() = {};
    const Results results = run_attention(problem, inputs, kWays[1]);
    ASSERT_EQ(emulation::report().error, "") << problem.name();
    const Worst worst = worst_parts(problem, inputs, results);
    const double gradients = problem.positions == 1 ? 0.1 : kTolerance;  // 0 but for rounding
    EXPECT_LE(worst.out, kTolerance) << problem.name();
    EXPECT_LE(worst.statistics, 1e-5) << problem.name();
    EXPECT_LE(worst.dqueries, gradients) << problem.name();
    EXPECT_LE(worst.dkeys, gradients) << problem.name();
    EXPECT_LE(worst.dvalues, kTolerance) << problem.name();
    EXPECT_EQ(emulation::report().bank_conflicts, 0u) << problem.name();
  }
}

// Scores dozens apart: most probabilities vanish, and the largest score moves from step to step.
TEST(EmulatedFlashAttention, AgreesWhereFewScoresDecide) {
  const AttentionProblem problem = {1, 200, 1, 1, 64, true, {}};
  const Inputs inputs(problem, 8);
  const Worst worst = worst_parts(problem, inputs, run_attention(problem, inputs, kWays[0]));
  EXPECT_LE(worst.out, kTolerance);
  EXPECT_LE(worst.statistics, 1e-5);
  EXPECT_LE(worst.dqueries, 2 * kTolerance);
  EXPECT_LE(worst.dkeys, 2 * kTolerance);
  EXPECT_LE(worst.dvalues, kTolerance);
}

TEST(EmulatedFlashAttention, ItsPowersOfTwoAreNearlyExact) {
  double worst = 0;
  for (float x = -125.9f; x <= 0.001f; x += 0.00137f)
    worst =
        std::max(worst, std::abs(cuda::power_of_two(x) / std::exp2(static_cast<double>(x)) - 1));
  EXPECT_LE(worst, 2.4e-7);
  EXPECT_EQ(cuda::power_of_two(0), 1);
  EXPECT_EQ(cuda::power_of_two(-3), 0.125f);
  EXPECT_EQ(cuda::power_of_two(-127), 0);
  EXPECT_EQ(cuda::power_of_two(-INFINITY), 0);
}

TEST(EmulatedFlashAttention, HasTheSameBitsHoweverWarpsTakeTurns) {
  for (const AttentionProblem& problem :
       {AttentionProblem{2, 100, 2, 1, 64, true, {100, 70}}, {1, 70, 1, 1, 128, false, {}}}) {
    const Inputs inputs(problem);
    const Results first = run_attention(problem, inputs, kWays[0]);
    ASSERT_FALSE(first.out.empty());
    for (Way way : kWays) EXPECT_EQ(run_attention(problem, inputs, way), first) << problem.name();
  }
}

TEST(EmulatedFlashAttention, AgreesOnAnAmpereTooButNotInEveryBit) {
  const AttentionProblem problem = {1, 100, 1, 1, 64, true, {}};
  const Inputs inputs(problem);
  const Results hopper = run_attention(problem, inputs, kWays[0]);
  emulation::settings().rounding = emulation::Rounding::ampere;
  const Results ampere = run_attention(problem, inputs, kWays[0]);
  emulation::settings().rounding = emulation::Rounding::hopper;
  EXPECT_LE(worst_parts(problem, inputs, ampere).out, kTolerance);
  EXPECT_FALSE(hopper == ampere);
}

TEST(EmulatedFlashAttention, NeedsEachOfItsBarriersWaitsAndCommits) {
  const AttentionProblem problem = {1, 200, 1, 1, 32, true, {}};
  const Inputs inputs(problem);
  emulation::report() = {};
  const Results whole = run_attention(problem, inputs, kWays[0]);
  ASSERT_FALSE(whole.out.empty());
  const auto points = emulation::report().points;
  EXPECT_EQ(points.size(), 12u) << "a barrier, a wait and two commits in each of three kernels";
  for (const emulation::Point& point : points) {
    emulation::settings().weakened = point;
    bool caught = false;
    for (Way way : kWays) caught = caught || !(run_attention(problem, inputs, way) == whole);
    EXPECT_TRUE(caught) << "flash_attention.cu:" << point.first << " is not needed";
  }
  emulation::settings().weakened = {};
}

TEST(EmulatedFlashAttention, RefusesWhatItCannotTake) {
  alignas(16) std::uint16_t bytes[16] = {};
  alignas(16) float statistics[8] = {};
  cuda::AttentionLaunch<std::uint16_t> work = {
      {1, 1, 1, 1, 8, true, nullptr}, bytes, bytes, statistics};
  work.extents.depth = 12;
  EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue);
  work.extents.depth = 136;
  EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue);
  work.extents = {1, 1, 3, 2, 8, true, nullptr};
  EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue);
  work.extents = {1, 1, 1, 1, 8, true, nullptr};
  work.qkv = bytes + 1;
  EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gpunode::parity
