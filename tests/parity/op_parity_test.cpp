// The CPU against float64, and against itself: instruction sets, repetitions and places in memory
// must not show in the bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/detail/isa.hpp"
#include "runtime/base/digest.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

class Operation : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case& row() const { return cases()[GetParam()]; }
};

struct WidestIsa {  // puts the choice back when a test ends
  const cpu::Isa widest = cpu::current_isa();
  ~WidestIsa() { cpu::use_isa(widest); }
};

TEST_P(Operation, AgreesWithItsDefinitionInFloat64) {
  auto backend = cpu::open_backend();
  auto outputs = run_case(row(), *backend);
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_LE(worst_difference(*outputs, row().reference(widen(row().inputs))), row().tolerance);
}

TEST_P(Operation, HasTheSameBitsOnEveryInstructionSet) {
  // oneDNN's products follow the instruction set, and a convolution is made of them; our own product
  // of few rows is not on the portable one. That of independent rows is on each.
  if (row().operation.starts_with("conv2d")) return;
  const bool product =
      row().operation == "matmul" && row().name.find("independent rows") == std::string::npos;
  if (product && row().inputs[1].size() < 512 * 1024) return;
  auto backend = cpu::open_backend();
  auto widest = run_case(row(), *backend);
  ASSERT_TRUE(widest);
  const WidestIsa restore;
  for (cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::portable}) {
    if (!cpu::use_isa(isa) || (product && isa == cpu::Isa::portable)) continue;
    auto narrower = run_case(row(), *backend);
    ASSERT_TRUE(narrower);
    EXPECT_TRUE(same_bits(*widest, *narrower)) << cpu::to_string(isa);
  }
}

TEST_P(Operation, RepeatsItsBits) {
  auto backend = cpu::open_backend();
  auto first = run_case(row(), *backend);
  auto again = run_case(row(), *backend);
  ASSERT_TRUE(first);
  ASSERT_TRUE(again);
  EXPECT_TRUE(same_bits(*first, *again));
}

std::string test_name(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name = cases()[info.param].name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, Operation, ::testing::Range<std::size_t>(0, cases().size()),
                         test_name);

TEST(OpTable, CoversEveryOperationOfABackend) {
  std::set<std::string> covered;
  for (const Case& one : cases()) covered.insert(one.operation);
  for (std::string_view name : ops::Operations{}.absent())
    EXPECT_TRUE(covered.contains(std::string(name))) << name << " has no row in the table";
}

// The table's rows hold the devices against each other; this one the CPU against its definition.
TEST(BlockDigest, IsThatOfEachBlock) {
  auto backend = cpu::open_backend();
  auto stream = backend->open_stream();
  tensor::BufferPool none(backend->memory(), 0);
  tensor::Workspace workspace(none);
  const Vector values = numbers(1, 1000);
  const ByteView bytes = std::as_bytes(std::span(values));
  for (std::size_t size : {0u, 1u, 1023u, 1024u, 1025u, 4000u}) {
    constexpr std::size_t kBlock = 1024;
    std::vector<std::uint64_t> words(10);
    ASSERT_TRUE(backend->operations().block_digest(
        **stream, workspace,
        {.in = bytes.first(size), .block_bytes = kBlock, .out = words.data()}));
    std::size_t begin = 0;
    for (auto word = words.begin(); begin < size || begin == 0; begin += kBlock) {
      const Digest digest = digest_of(bytes.subspan(begin, std::min(kBlock, size - begin)));
      EXPECT_EQ(*word++, digest.high) << size;
      EXPECT_EQ(*word++, digest.low) << size;
    }
  }
}

TEST(OpTable, NoticesAWrongResult) {
  const Case& row = cases().front();
  auto backend = cpu::open_backend();
  auto outputs = run_case(row, *backend);
  ASSERT_TRUE(outputs);
  (*outputs)[0][3] += 0.01f;
  EXPECT_GT(worst_difference(*outputs, row.reference(widen(row.inputs))), row.tolerance);
}

}  // namespace
}  // namespace gpunode::parity
