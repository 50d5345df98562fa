// The logic of our own CUDA kernels where there is no GPU: compiled for the host against a small
// emulation, each agrees with the same float64 references, and has the CPU's bits where every
// device is to have them. The kernels come from the table that the GPU's backend is filled from.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/parity/emulated_backend.hpp"
#include "tests/parity/emulation/ways.hpp"

namespace gpunode::parity {
namespace {

class EmulatedCuda : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedCuda, AgreesWithTheDefinitionInFloat64) {
  EmulatedBackend emulation;
  auto host = cpu::open_backend();
  int compared = 0;
  for (const Case& one : cases()) {
    if (one.operation != GetParam()) continue;
    emulation::report() = {};
    auto outputs = run_case(one, emulation);
    ASSERT_TRUE(outputs) << outputs.error().message() << ": " << emulation::report().error;
    EXPECT_EQ(emulation::report().bank_conflicts, 0u) << one.name;
    EXPECT_LE(worst_difference(*outputs, one.reference(widen(one.inputs))), one.tolerance)
        << one.name;
    ++compared;
    if (!has_the_same_bits(one.operation)) continue;
    auto expected = run_case(one, *host);
    ASSERT_TRUE(expected);
    EXPECT_TRUE(same_bits(*expected, *outputs)) << one.name << ": not the CPU's bits";
  }
  EXPECT_GE(compared, 1);
}

TEST_P(EmulatedCuda, AlignmentDoesNotShowInTheBits) {
  EmulatedBackend emulation;
  for (const Case& one : cases()) {
    if (one.operation != GetParam() || one.operation == "block_digest")
      continue;  // words of 8 bytes
    auto aligned = run_case(one, emulation), shifted = run_case(one, emulation, 1);
    ASSERT_TRUE(aligned && shifted);
    EXPECT_TRUE(same_bits(*aligned, *shifted)) << one.name;
  }
}

// Where a kernel finds addresses in shared memory, one without its barrier would end the process.
// Attention has tests of its own for this, over fewer shapes, as it takes long.
bool may_be_weakened(const Case& one) {
  return one.operation != "embedding_backward" && one.operation != "attention" &&
         one.operation != "attention_backward";
}

// What is left out shows in some shape, run in some way; with all of it no way does.
TEST_P(EmulatedCuda, NeedsEachOfItsBarriersWaitsAndCommitsAndNoMore) {
  EmulatedBackend emulation;
  std::set<emulation::Point> points, caught;
  for (const Case& one : cases()) {
    if (one.operation != GetParam()) continue;
    emulation::settings() = {};
    emulation::report() = {};
    const auto expected = run_case(one, emulation);
    ASSERT_TRUE(expected);
    auto own = emulation::report().points;
    if (!may_be_weakened(one)) own.clear();
    points.insert(own.begin(), own.end());
    for (const Way& way : kWays) {
      emulation::settings() = {.schedule = way.schedule, .landing = way.landing};
      const auto other = run_case(one, emulation);
      EXPECT_TRUE(other && same_bits(*expected, *other)) << one.name;
      for (const emulation::Point& point : own) {
        if (caught.contains(point)) continue;
        emulation::settings() = {
            .schedule = way.schedule, .landing = way.landing, .weakened = point};
        const auto weaker = run_case(one, emulation);
        if (!weaker || !same_bits(*expected, *weaker)) caught.insert(point);
      }
    }
  }
  emulation::settings() = {};
  for (const emulation::Point& point : points)
    EXPECT_TRUE(caught.contains(point)) << GetParam() << ": line " << point.first;
}

// Many rows for a team that is a block: sums of rows take turns in the memory that they use.
TEST(EmulatedNorm, OfManyWideRowsIsTheCpusUnderEverySchedule) {
  EmulatedBackend emulation;
  auto host = cpu::open_backend();
  constexpr std::int64_t kRows = 771, kColumns = 1028;
  Case one;
  one.inputs = {numbers(1, kRows * kColumns), numbers(2, kRows * kColumns), numbers(3, kColumns),
                numbers(4, kRows), numbers(5, kRows)};
  one.output_sizes = {kRows * kColumns, kColumns, kColumns};
  one.run = [](parity::Run& run) {
    const tensor::Shape whole{kRows, kColumns};
    return run.ops.layernorm_backward(run.stream, run.workspace,
                                      {.dy = {run.in[0], whole},
                                       .x = {run.in[1], whole},
                                       .weight = {run.in[2], {kColumns}},
                                       .mean = {run.in[3], {kRows}},
                                       .rstd = {run.in[4], {kRows}},
                                       .dx = {run.out[0], whole},
                                       .dweight = {run.out[1], {kColumns}},
                                       .dbias = {run.out[2], {kColumns}}});
  };
  const auto expected = run_case(one, *host);
  ASSERT_TRUE(expected);
  std::vector<Vector> first;
  for (const Way& way : kWays) {
    emulation::settings() = {.schedule = way.schedule, .landing = way.landing};
    const auto outputs = run_case(one, emulation);
    ASSERT_TRUE(outputs);
    EXPECT_LE(worst_difference(*outputs, widen(*expected)), 3e-5);
    if (first.empty()) first = *outputs;
    EXPECT_TRUE(same_bits(first, *outputs));
  }
  emulation::settings() = {};
}

// Of rows that are not part of the table, as they are large.
TEST(EmulatedGrid, StridesOverMoreThanItCovers) {
  EmulatedBackend emulation;
  auto host = cpu::open_backend();
  constexpr std::int64_t kCount = 2'200'003;
  Case one;
  one.inputs = {numbers(1, kCount), numbers(2, kCount)};
  one.output_sizes = {static_cast<std::size_t>(kCount)};
  one.run = [](parity::Run& run) {
    return run.ops.add(
        run.stream, run.workspace,
        {.a = {run.in[0], {kCount}}, .b = {run.in[1], {kCount}}, .out = {run.out[0], {kCount}}});
  };
  const auto expected = run_case(one, *host), outputs = run_case(one, emulation);
  ASSERT_TRUE(expected && outputs);
  EXPECT_TRUE(same_bits(*expected, *outputs));
}

std::vector<std::string> operations_with_twins() {
  EmulatedBackend emulation;
  std::vector<std::string> names;
  for (const Case& one : cases())
    if (emulation.has_twin(one.operation) &&
        std::find(names.begin(), names.end(), one.operation) == names.end())
      names.push_back(one.operation);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, EmulatedCuda, ::testing::ValuesIn(operations_with_twins()),
                         [](const auto& operation) { return operation.param; });

}  // namespace
}  // namespace gpunode::parity
