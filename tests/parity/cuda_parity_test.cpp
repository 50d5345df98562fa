// CUDA against the CPU, from the same table. Where there is no device, one line says so.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

bool has_twin(const ops::Operations& operations, const std::string& name) {
  const auto missing = operations.absent();
  return std::find(missing.begin(), missing.end(), name) == missing.end();
}

TEST(Cuda, AgreesWithTheCpuOnEveryOperationItHas) {
  auto gpu = cuda::open_backend();
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  auto host = cpu::open_backend();
  int compared = 0;
  for (const Case& one : cases()) {
    if (!has_twin((*gpu)->operations(), one.operation)) continue;
    auto expected = run_case(one, *host);
    auto outputs = run_case(one, **gpu);
    ASSERT_TRUE(expected);
    ASSERT_TRUE(outputs) << one.name << ": " << outputs.error().message();
    EXPECT_LE(worst_difference(*outputs, widen(*expected)), 2 * one.tolerance) << one.name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Cuda, RepeatsItsBits) {
  auto gpu = cuda::open_backend();
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  for (const Case& one : cases()) {
    if (!has_twin((*gpu)->operations(), one.operation)) continue;
    auto first = run_case(one, **gpu);
    auto again = run_case(one, **gpu);
    ASSERT_TRUE(first && again);
    EXPECT_EQ(*first, *again) << one.name;
  }
}

}  // namespace
}  // namespace gpunode::parity
