#include "runtime/probe/gpu_probe.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace gpunode::probe {
namespace {

class FakeNvml : public ::testing::Test {
 protected:
  void SetUp() override {
    handle = dlopen(GPUNODE_FAKE_NVML, RTLD_NOW);
    ASSERT_NE(handle, nullptr) << dlerror();
    set = reinterpret_cast<void (*)(int, unsigned, int)>(dlsym(handle, "fake_nvml_set"));
    ASSERT_NE(set, nullptr);
    set(0, 2, 0);
  }
  void TearDown() override {
    if (handle) dlclose(handle);
  }
  void* handle = nullptr;
  void (*set)(int init, unsigned count, int query) = nullptr;
};

TEST(GpuProbe, WithoutALibraryThereAreNoDevicesAndAReason) {
  const auto probe = open_nvml_probe("libgpunode-no-such-library.so");
  EXPECT_TRUE(probe->sample().empty());
  EXPECT_NE(probe->absent_reason().find("no GPU driver"), std::string::npos);
  EXPECT_EQ(probe->driver_version(), std::nullopt);
}

TEST(GpuProbe, AnotherLibraryOfThatNameIsNoDriver) {
  const auto probe = open_nvml_probe("libm.so.6");
  EXPECT_TRUE(probe->sample().empty());
  EXPECT_NE(probe->absent_reason().find("lacks the functions"), std::string::npos);
}

TEST_F(FakeNvml, DevicesAreListedWithTheirFigures) {
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  EXPECT_EQ(probe->absent_reason(), "");
  EXPECT_EQ(probe->driver_version(), "999.1");
  const auto samples = probe->sample();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].index, 1u);
  EXPECT_EQ(samples[0].name, "Fake GPU");
  EXPECT_EQ(samples[0].uuid, "GPU-1234");
  EXPECT_EQ(samples[0].pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(samples[1].pci_bus_id, "00000000:C1:00.0");
  EXPECT_EQ(samples[0].memory_total_bytes, 1000u);
  EXPECT_EQ(samples[0].memory_free_bytes, 600u);
  EXPECT_EQ(samples[0].memory_used_bytes, 400u);
  EXPECT_EQ(samples[0].utilization_percent, 55u);
  EXPECT_EQ(samples[0].temperature_celsius, 61);
  EXPECT_FALSE(samples[0].lost);
}

TEST_F(FakeNvml, AFigureThatTheDeviceDoesNotKnowIsAbsentAndNotZero) {
  const auto samples = open_nvml_probe(GPUNODE_FAKE_NVML)->sample();
  ASSERT_FALSE(samples.empty());
  EXPECT_EQ(samples[0].power_watts, std::nullopt);
}

TEST_F(FakeNvml, MemoryErrorsAreThoseOfEachDeviceAndAbsentWhereNoneAreCounted) {
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  EXPECT_EQ(probe->sample().at(1).uncorrected_errors, std::nullopt);
  const auto count = reinterpret_cast<void (*)(int)>(dlsym(handle, "fake_nvml_count_errors"));
  ASSERT_NE(count, nullptr);
  count(1);
  EXPECT_EQ(probe->sample().at(0).uncorrected_errors, 0u);
  EXPECT_EQ(probe->sample().at(1).uncorrected_errors, 3u);
  count(0);
}

TEST_F(FakeNvml, ALibraryWithoutADriverSaysSo) {
  set(9, 2, 0);
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  EXPECT_TRUE(probe->sample().empty());
  EXPECT_NE(probe->absent_reason().find("Driver Not Loaded"), std::string::npos);
}

TEST_F(FakeNvml, ALostDeviceIsListedAsLost) {
  set(0, 2, 15);
  const auto samples = open_nvml_probe(GPUNODE_FAKE_NVML)->sample();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_FALSE(samples[0].lost);
  EXPECT_TRUE(samples[1].lost);
  EXPECT_EQ(samples[1].memory_total_bytes, std::nullopt);
}

}  // namespace
}  // namespace gpunode::probe
