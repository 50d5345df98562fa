// Attention in float32 without tensor cores, compiled for the host: against float64 over shapes that
// end inside tiles and at their borders; equal bits however warps take turns; and each barrier in it
// is needed, for without it some run goes wrong.
#include "kernels/cuda/toolkit/attention_f32.cu"
#include "tests/parity/attention_kernel_cases.hpp"

namespace gpunode::parity {
namespace {

using Inputs = AttentionInputs<float>;
using Results = AttentionResults<float>;

// Of the largest entry; the worst measured is 8.5e-7.
constexpr double kTolerance = 2e-6;

const std::vector<AttentionProblem>& problems() {
  static const std::vector<AttentionProblem> all = {
      {1, 1, 1, 1, 64, true, {}},         {2, 5, 2, 1, 64, true, {}},
      {1, 63, 2, 2, 64, true, {}},        {1, 64, 1, 1, 64, false, {}},
      {1, 65, 1, 1, 64, true, {}},        {2, 100, 2, 1, 64, false, {100, 37}},
      {1, 129, 2, 1, 64, true, {}},       {1, 257, 1, 1, 64, true, {}},
      {1, 1, 1, 1, 128, true, {}},        {1, 65, 2, 1, 128, true, {}},
      {2, 33, 1, 1, 128, false, {0, 33}}, {1, 100, 3, 1, 32, true, {}},
      {2, 70, 2, 2, 4, false, {70, 64}},  {1, 70, 2, 1, 76, true, {}},
      {2, 37, 4, 2, 7, true, {37, 30}},   {1, 33, 1, 1, 101, false, {}},
  };
  return all;
}

TEST(EmulatedAttentionF32, AgreesWithFloat64) {
  for (const AttentionProblem& problem : problems()) {
    const Inputs inputs(problem);
    emulation::report() = {};
    const Results results = run_attention(problem, inputs, kWays[1]);
    ASSERT_EQ(emulation::report().error, "") << problem.name();
    const Worst worst = worst_parts(problem, inputs, results);
    EXPECT_LE(worst.out, kTolerance) << problem.name();
    EXPECT_LE(worst.statistics, kTolerance) << problem.name();
    // One position has gradients of 0 in queries and keys: then of 1e-6, which rounding exceeds.
    EXPECT_LE(worst.dqueries, problem.positions == 1 ? 1 : kTolerance) << problem.name();
    EXPECT_LE(worst.dkeys, problem.positions == 1 ? 1 : kTolerance) << problem.name();
    EXPECT_LE(worst.dvalues, kTolerance) << problem.name();
  }
}

TEST(EmulatedAttentionF32, HasTheSameBitsHoweverWarpsTakeTurns) {
  for (const AttentionProblem& problem :
       {AttentionProblem{2, 100, 2, 1, 64, true, {100, 70}}, {1, 70, 1, 1, 128, false, {}}}) {
    const Inputs inputs(problem);
    const Results first = run_attention(problem, inputs, kWays[0]);
    ASSERT_FALSE(first.out.empty());
    for (Way way : kWays) EXPECT_EQ(run_attention(problem, inputs, way), first) << problem.name();
  }
}

TEST(EmulatedAttentionF32, NeedsEachOfItsBarriers) {
  const AttentionProblem problem = {1, 140, 1, 1, 32, true, {}};
  const Inputs inputs(problem);
  emulation::report() = {};
  const Results whole = run_attention(problem, inputs, kWays[0]);
  ASSERT_FALSE(whole.out.empty());
  const auto points = emulation::report().points;
  EXPECT_EQ(points.size(), 6u) << "two barriers in each of three kernels";
  for (const emulation::Point& point : points) {
    emulation::settings().weakened = point;
    bool caught = false;
    for (Way way : kWays) caught = caught || !(run_attention(problem, inputs, way) == whole);
    EXPECT_TRUE(caught) << "attention_f32.cu:" << point.first << " is not needed";
  }
  emulation::settings().weakened = {};
}

TEST(EmulatedAttentionF32, RefusesWhatItCannotTake) {
  alignas(16) float values[16] = {};
  alignas(16) float statistics[8] = {};
  cuda::AttentionLaunch<float> work = {{1, 1, 1, 1, 4, true, nullptr}, values, values, statistics};
  for (int depth : {0, 129, 132}) {
    work.extents.depth = depth;
    EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue) << depth;
  }
  work.extents = {1, 1, 3, 2, 4, true, nullptr};
  EXPECT_EQ(cuda::launch(work, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gpunode::parity
