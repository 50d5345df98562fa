#include "actors/compute/device_peak.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::compute {
namespace {

TEST(DevicePeak, is_measured_and_kept_for_each_precision_of_its_own) {
  const auto backend = cpu::open_backend();
  NodeDevice device("cpu", *backend);
  const SystemClock clock;
  DeviceUse use(device, "a test");
  ASSERT_TRUE(measure_peak(use, 1, Precision::bf16, clock));
  const double in_bf16 = device.peak_flops(Precision::bf16);
  EXPECT_GT(in_bf16, 1e6);
  EXPECT_EQ(device.peak_flops(Precision::fp32), 0) << "not measured yet";
  ASSERT_TRUE(measure_peak(use, 1, Precision::fp32, clock));
  EXPECT_GT(device.peak_flops(Precision::fp32), 1e6);
  EXPECT_EQ(device.peak_flops(Precision::bf16), in_bf16);
}

TEST(DevicePeak, of_a_precision_that_the_device_lacks_is_an_error_and_stays_unknown) {
  const auto backend = cpu::open_backend();
  NodeDevice device("cpu", *backend);
  const SystemClock clock;
  DeviceUse use(device, "a test");
  const auto done = measure_peak(use, 1, Precision::tf32, clock);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unsupported);
  EXPECT_EQ(device.peak_flops(Precision::tf32), 0);
}

}  // namespace
}  // namespace gpunode::compute
