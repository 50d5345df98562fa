#include "actors/health/health_metrics.hpp"

#include <gtest/gtest.h>

namespace gpunode::health {
namespace {

class Shown : public ::testing::Test {
 protected:
  bool has(const std::string& line) {
    return ("\n" + metrics_.prometheus_text()).find("\n" + line + "\n") != std::string::npos;
  }
  static std::string at(const std::string& name) {
    return name +
           "{Hostname=\"here\",UUID=\"GPU-1\",device=\"nvidia0\",gpu=\"0\",modelName=\"H100\","
           "pci_bus_id=\"00000000:01:00.0\"}";
  }
  static probe::GpuSample gpu() {
    probe::GpuSample sample;
    sample.name = "H100";
    sample.uuid = "GPU-1";
    sample.pci_bus_id = "00000000:01:00.0";
    sample.memory_used_bytes = 3ull << 30;
    sample.memory_free_bytes = (77ull << 30) + 5;
    sample.utilization_percent = 42;
    sample.temperature_celsius = 61;
    sample.power_watts = 312.5;
    return sample;
  }

  telemetry::Registry metrics_;
  HealthMetrics shown_{metrics_, "here"};
};

TEST_F(Shown, GpusHaveTheNamesLabelsAndUnitsOfDcgmExporter) {
  shown_.on_gpus({gpu()});
  EXPECT_TRUE(has(at("DCGM_FI_DEV_GPU_UTIL") + " 42")) << metrics_.prometheus_text();
  EXPECT_TRUE(has(at("DCGM_FI_DEV_FB_USED") + " 3072"));
  EXPECT_TRUE(has(at("DCGM_FI_DEV_FB_FREE") + " 78848"));
  EXPECT_TRUE(has(at("DCGM_FI_DEV_GPU_TEMP") + " 61"));
  EXPECT_TRUE(has(at("DCGM_FI_DEV_POWER_USAGE") + " 312.5"));
  EXPECT_TRUE(has(at("DCGM_FI_DEV_XID_ERRORS") + " 0"));
  EXPECT_FALSE(has("# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter")) << "it counts none";
}

TEST_F(Shown, WhatALostDeviceSaidLastIsNotShownAsIfItWereNow) {
  probe::GpuSample sample = gpu();
  sample.xids = {31, 79};
  sample.uncorrected_errors = 2;
  shown_.on_gpus({sample});
  probe::GpuSample lost;
  lost.lost = true;
  for (const auto& told : {std::vector{lost}, std::vector<probe::GpuSample>{}}) {
    shown_.on_gpus(told);
    EXPECT_EQ(metrics_.prometheus_text().find("DCGM_FI_DEV_GPU_TEMP{"), std::string::npos);
    EXPECT_TRUE(has(at("DCGM_FI_DEV_XID_ERRORS") + " 79")) << "the last error stays the last";
    EXPECT_TRUE(has(at("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL") + " 2"));
  }
  shown_.on_gpus({gpu()});
  EXPECT_TRUE(has(at("DCGM_FI_DEV_GPU_TEMP") + " 61"));
}

TEST_F(Shown, TheDiskAndVerdictsAreShown) {
  probe::HostSample sample;
  sample.disk_free_bytes = 123'456'789'012;
  shown_.on_host(sample);
  EXPECT_TRUE(has("gpunode_disk_free_bytes 123456789012"));
  EXPECT_EQ(metrics_.prometheus_text().find("\ngpunode_disk_size_bytes "), std::string::npos);
  shown_.on_verdicts({{"gpu0", true, "hot"}, {"node", false, ""}});
  EXPECT_TRUE(has("gpunode_drained{subject=\"gpu0\"} 1"));
  EXPECT_TRUE(has("gpunode_drained{subject=\"node\"} 0"));
}

}  // namespace
}  // namespace gpunode::health
