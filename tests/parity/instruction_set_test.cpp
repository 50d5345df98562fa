// Pinning the instruction set is for a whole process and comes before the first product, so each
// case runs in a process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

// Exits with 0 if every case is right with `name` pinned, or the processor lacks it.
[[noreturn]] void check_pinned(const char* name) {
  if (auto pinned = cpu::pin_instruction_set(name); !pinned)
    std::_Exit(pinned.error().code == ErrorCode::unsupported ? 0 : 2);
  auto backend = cpu::open_backend();
  if (backend->capabilities().instruction_set != name) std::_Exit(3);
  for (const Case& one : cases()) {
    auto outputs = run_case(one, *backend);
    if (!outputs || worst_difference(*outputs, one.reference(widen(one.inputs))) > one.tolerance) {
      std::fprintf(stderr, "%s is wrong with %s\n", one.name.c_str(), name);
      std::_Exit(1);
    }
  }
  std::_Exit(0);
}

TEST(PinnedInstructionSet, GivesRightResultsDeathTest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* name : {"portable", "avx2", "avx512"})
    EXPECT_EXIT(check_pinned(name), ::testing::ExitedWithCode(0), "") << name;
}

TEST(PinnedInstructionSet, RefusesAnUnknownNameAndALateCall) {
  EXPECT_EQ(cpu::pin_instruction_set("sse9").error().code, ErrorCode::invalid_argument);
  auto backend = cpu::open_backend();
  ASSERT_TRUE(run_case(cases().front(), *backend));
  const std::string widest = backend->capabilities().instruction_set;
  auto late = cpu::pin_instruction_set(widest);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::wrong_state);
}

}  // namespace
}  // namespace gpunode::parity
