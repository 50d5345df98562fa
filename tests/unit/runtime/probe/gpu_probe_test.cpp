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

class FakeEvents : public FakeNvml {
 protected:
  void SetUp() override {
    FakeNvml::SetUp();
    happen = reinterpret_cast<void (*)(int, unsigned long long, unsigned long long)>(
        dlsym(handle, "fake_nvml_happen"));
    ASSERT_NE(happen, nullptr);
  }
  static constexpr unsigned long long kXid = 8, kClock = 16;
  void (*happen)(int device, unsigned long long type, unsigned long long data) = nullptr;
};

TEST_F(FakeEvents, XidsAreToldOnceOfTheirDeviceAndInOrder) {
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  EXPECT_TRUE(probe->sample().at(1).xids.empty());
  happen(1, kXid, 31);
  happen(0, kXid, 79);
  happen(1, kXid, 48);
  const auto samples = probe->sample();
  EXPECT_EQ(samples.at(0).xids, (std::vector<unsigned>{79}));
  EXPECT_EQ(samples.at(1).xids, (std::vector<unsigned>{31, 48}));
  EXPECT_TRUE(probe->sample().at(1).xids.empty());
}

TEST_F(FakeEvents, AnotherKindOfEventIsNoXid) {
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  happen(0, kClock, 48);
  happen(0, kXid, 63);
  EXPECT_EQ(probe->sample().at(0).xids, (std::vector<unsigned>{63}));
}

TEST_F(FakeEvents, AStormOfThemEndsASampleAndIsGoneOnWithInTheNext) {
  const auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  for (int number = 0; number < 300; ++number) happen(0, kXid, 31);
  const std::size_t first = probe->sample().at(0).xids.size();
  EXPECT_LT(first, 300u);
  EXPECT_EQ(first + probe->sample().at(0).xids.size(), 300u);
}

TEST_F(FakeEvents, AProbeThatIsGoneHearsNoMoreAndANewOneHearsNothingOld) {
  auto probe = open_nvml_probe(GPUNODE_FAKE_NVML);
  happen(0, kXid, 48);
  probe.reset();
  happen(0, kXid, 79);
  EXPECT_TRUE(open_nvml_probe(GPUNODE_FAKE_NVML)->sample().at(0).xids.empty());
}

TEST(GpuProbe, ADriverThatKnowsNoEventsStillTellsItsFigures) {
  const auto samples = open_nvml_probe(GPUNODE_FAKE_NVML_OLD)->sample();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].temperature_celsius, 61);
  EXPECT_TRUE(samples[0].xids.empty());
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
