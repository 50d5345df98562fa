#include "actors/health/verdict_policy.hpp"

#include <gtest/gtest.h>

namespace gpunode::health {
namespace {

using namespace std::chrono_literals;

class VerdictPolicyTest : public ::testing::Test {
 protected:
  std::vector<Verdict> heat(std::optional<int> celsius, Duration after = 1s) {
    now += after;
    probe::GpuSample sample;
    sample.temperature_celsius = celsius;
    return policy.on_gpus(now, {sample});
  }
  std::vector<Verdict> disk(std::optional<std::uint64_t> free, Duration after = 1s) {
    now += after;
    probe::HostSample sample;
    sample.disk_free_bytes = free;
    return policy.on_host(now, sample);
  }
  VerdictPolicy policy;
  Time now = Time{} + 1h;
};

TEST_F(VerdictPolicyTest, AHotDeviceIsDrainedWithAReasonOnceItWasHotLongEnough) {
  EXPECT_TRUE(heat(95).empty());
  EXPECT_TRUE(heat(95, 9s).empty());
  const auto verdicts = heat(96);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].subject, "gpu0");
  EXPECT_TRUE(verdicts[0].drain);
  EXPECT_NE(verdicts[0].reason.find("96 C"), std::string::npos) << verdicts[0].reason;
  EXPECT_TRUE(heat(97).empty()) << "a verdict is told once";
  EXPECT_EQ(policy.drained().size(), 1u);
}

TEST_F(VerdictPolicyTest, ASpikeDrainsNothing) {
  heat(95);
  heat(80, 5s);
  EXPECT_TRUE(heat(95, 5s).empty());
  EXPECT_TRUE(heat(95, 9s).empty());
  EXPECT_TRUE(policy.drained().empty());
}

TEST_F(VerdictPolicyTest, RecoveryClearsAfterItLasted) {
  heat(95);
  ASSERT_EQ(heat(95, 10s).size(), 1u);
  EXPECT_TRUE(heat(88).empty()) << "between the bounds nothing changes";
  EXPECT_TRUE(heat(80).empty());
  EXPECT_TRUE(heat(88, 15s).empty());
  EXPECT_TRUE(heat(80, 15s).empty()) << "the good time was interrupted";
  const auto verdicts = heat(80, 30s);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0], (Verdict{"gpu0", false, ""}));
  EXPECT_TRUE(policy.drained().empty());
}

TEST_F(VerdictPolicyTest, AnUnknownFigureNeitherDrainsNorClears) {
  EXPECT_TRUE(heat(std::nullopt, 60s).empty());
  heat(95);
  ASSERT_EQ(heat(95, 10s).size(), 1u);
  EXPECT_TRUE(heat(std::nullopt, 600s).empty());
  EXPECT_EQ(policy.drained().size(), 1u);
}

TEST_F(VerdictPolicyTest, ALostDeviceIsDrainedAtOnce) {
  probe::GpuSample sample;
  sample.index = 3;
  sample.lost = true;
  const auto verdicts = policy.on_gpus(now, {sample});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].subject, "gpu3");
}

TEST_F(VerdictPolicyTest, AFullDiskDrainsTheNodeAndFreeSpaceClears) {
  disk(100 << 20);
  const auto drained = disk(100 << 20, 10s);
  ASSERT_EQ(drained.size(), 1u);
  EXPECT_EQ(drained[0].subject, "node");
  EXPECT_NE(drained[0].reason.find("free some space"), std::string::npos);
  disk(8ull << 30);
  const auto cleared = disk(8ull << 30, 30s);
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].drain);
}

TEST_F(VerdictPolicyTest, OneOfTwoReasonsClearedKeepsTheNodeDrained) {
  probe::HostSample both;
  both.disk_free_bytes = 1;
  both.memory_total_bytes = 1000;
  both.memory_available_bytes = 1;
  policy.on_host(now, both);
  now += 10s;
  ASSERT_EQ(policy.on_host(now, both).size(), 1u);
  both.disk_free_bytes = 8ull << 30;
  policy.on_host(now, both);
  now += 31s;
  EXPECT_TRUE(policy.on_host(now, both).empty());
  ASSERT_EQ(policy.drained().size(), 1u);
  EXPECT_EQ(policy.drained()[0].reason.find("disk"), std::string::npos);
  EXPECT_NE(policy.drained()[0].reason.find("memory"), std::string::npos);
}

TEST_F(VerdictPolicyTest, AVerdictKeepsThePlaceOfADeviceThatTheDriverHasLost) {
  probe::GpuSample sample;
  sample.index = 3;
  sample.pci_bus_id = "00000000:0A:00.0";
  EXPECT_TRUE(policy.on_gpus(now, {sample}).empty());
  ASSERT_EQ(policy.standing().size(), 1u) << "good ones too";
  EXPECT_FALSE(policy.standing()[0].drain);
  sample.pci_bus_id.reset();
  sample.lost = true;
  const auto verdicts = policy.on_gpus(now, {sample});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].subject, "gpu3");
  EXPECT_EQ(verdicts[0].pci_bus_id, "00000000:0A:00.0");
  EXPECT_EQ(policy.standing(), verdicts);
}

TEST_F(VerdictPolicyTest, ADeviceWithMemoryErrorsIsDrainedAtOnceUntilItWasReset) {
  probe::GpuSample sample;
  const auto with = [&](std::optional<std::uint64_t> errors) {
    now += 1s;
    sample.uncorrected_errors = errors;
    return policy.on_gpus(now, {sample});
  };
  EXPECT_TRUE(with(std::nullopt).empty());
  EXPECT_TRUE(with(0).empty());
  const auto verdicts = with(2);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_TRUE(verdicts[0].drain);
  EXPECT_NE(verdicts[0].reason.find("2 errors"), std::string::npos) << verdicts[0].reason;
  now += 1h;
  EXPECT_TRUE(with(2).empty()) << "time heals nothing";
  EXPECT_TRUE(with(std::nullopt).empty()) << "nor does a reading that is absent";
  EXPECT_TRUE(with(0).empty());
  now += 30s;
  const auto cleared = with(0);
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].drain);
}

TEST_F(VerdictPolicyTest, AnXidThatCondemnsItsDeviceDrainsItAtOnceAndForGood) {
  probe::GpuSample sample;
  sample.xids = {31, 79};
  auto verdicts = policy.on_gpus(now, {sample});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_TRUE(verdicts[0].drain);
  EXPECT_EQ(verdicts[0].reason.rfind("Xid 79, it has fallen off the bus", 0), 0u)
      << verdicts[0].reason;
  sample.xids = {};
  EXPECT_TRUE(policy.on_gpus(now += 1h, {sample}).empty());
  EXPECT_TRUE(policy.on_gpus(now += 1h, {sample}).empty());
  EXPECT_EQ(policy.drained().size(), 1u);
}

TEST_F(VerdictPolicyTest, AnXidOfAProgramsErrorDrainsNothing) {
  probe::GpuSample sample;
  sample.xids = {13, 31, 43, 45, 63, 94, 999};
  EXPECT_TRUE(policy.on_gpus(now, {sample}).empty());
  EXPECT_TRUE(policy.drained().empty());
}

}  // namespace
}  // namespace gpunode::health
