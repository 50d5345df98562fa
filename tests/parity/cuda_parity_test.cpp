// CUDA against the CPU, from the same table. Where there is no device, one line says so.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

// With cuBLASLt's products where it is found, and with ours.
class Cuda : public ::testing::TestWithParam<cuda::Products> {};

TEST_P(Cuda, AgreesWithTheCpuOnEveryOperation) {
  auto gpu = cuda::open_backend(0, GetParam());
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  auto host = cpu::open_backend();
  int compared = 0;
  for (const Case& one : cases()) {
    if (!has_operation((*gpu)->operations(), one.operation)) continue;
    auto expected = run_case(one, *host);
    auto outputs = run_case(one, **gpu);
    ASSERT_TRUE(expected);
    ASSERT_TRUE(outputs) << one.name << ": " << outputs.error().message();
    if (has_the_same_bits(one.operation))
      EXPECT_TRUE(same_bits(*outputs, *expected)) << one.name;
    else
      EXPECT_LE(worst_difference(*outputs, widen(*expected)), 2 * one.tolerance) << one.name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST_P(Cuda, RepeatsItsBits) {
  auto gpu = cuda::open_backend(0, GetParam());
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  for (const Case& one : cases()) {
    if (!has_operation((*gpu)->operations(), one.operation)) continue;
    auto first = run_case(one, **gpu);
    auto again = run_case(one, **gpu);
    ASSERT_TRUE(first && again);
    EXPECT_TRUE(same_bits(*first, *again)) << one.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Products, Cuda,
                         ::testing::Values(cuda::Products::fastest, cuda::Products::own),
                         [](const auto& given) {
                           return given.param == cuda::Products::own ? "own" : "fastest";
                         });

}  // namespace
}  // namespace gpunode::parity
