// The hostile device keeps its promise: it has the CPU's bits, and finds every fault that it is there
// to find, by name.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::hostile {
namespace {

std::unique_ptr<HostileBackend> open(const Options& options = {}) {
  auto backend = open_backend(options);
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

TEST(HostileDevice, HasTheBitsOfTheCpuOnEveryOperation) {
  auto host = cpu::open_backend();
  auto backend = open();
  for (const parity::Case& one : parity::cases()) {
    auto expected = parity::run_case(one, *host);
    auto outputs = parity::run_case(one, *backend);
    ASSERT_TRUE(expected);
    ASSERT_TRUE(outputs) << one.name << ": " << outputs.error().message();
    EXPECT_TRUE(parity::same_bits(*expected, *outputs)) << one.name;
  }
  EXPECT_EQ(backend->report().first_error, "");
  EXPECT_GT(backend->report().operations, parity::cases().size() - 1);
}

TEST(HostileDeviceDeathTest, TheHostDiesOfADevicesAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto backend = open();
        auto piece = backend->memory()->allocate(64);
        *static_cast<volatile float*>(*piece) = 1;
      },
      "the host touched the device's memory");
}

}  // namespace
}  // namespace gpunode::hostile
