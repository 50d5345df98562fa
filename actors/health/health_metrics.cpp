#include "actors/health/health_metrics.hpp"

namespace gpunode::health {
namespace {

template <class Number>
double shown(const std::optional<Number>& value) {
  return value ? static_cast<double>(*value) : telemetry::Gauge::kUnknown;
}
std::optional<std::uint64_t> mebibytes(const std::optional<std::uint64_t>& bytes) {
  if (!bytes) return bytes;
  return *bytes >> 20;
}

}  // namespace

void HealthMetrics::on_host(const probe::HostSample& sample) {
  metrics_.gauge("gpunode_disk_size_bytes", "Size of the file system of the state directory")
      .set(shown(sample.disk_total_bytes));
  metrics_
      .gauge("gpunode_disk_free_bytes",
             "Free for this node on the file system of the state directory")
      .set(shown(sample.disk_free_bytes));
}

void HealthMetrics::on_gpus(const std::vector<probe::GpuSample>& samples) {
  std::map<unsigned, const probe::GpuSample*> told;
  for (const probe::GpuSample& sample : samples) {
    told[sample.index] = &sample;
    const std::string index = std::to_string(sample.index);
    if (sample.uuid)  // a device that is lost at the start has no name to be shown under
      gpus_.try_emplace(sample.index,
                        telemetry::Labels{{"gpu", index},
                                          {"UUID", *sample.uuid},
                                          {"pci_bus_id", sample.pci_bus_id.value_or("")},
                                          {"device", "nvidia" + index},
                                          {"modelName", sample.name.value_or("")},
                                          {"Hostname", host_name_}});
  }
  static const probe::GpuSample kNothing;
  for (const auto& [index, labels] : gpus_) {
    const auto found = told.find(index);
    show(labels, found == told.end() ? kNothing : *found->second);
  }
}

void HealthMetrics::show(const telemetry::Labels& labels, const probe::GpuSample& sample) {
  const auto set = [&](const char* name, const char* help, double value) {
    metrics_.gauge(name, help, labels).set(value);
  };
  set("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", shown(sample.utilization_percent));
  set("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
      shown(mebibytes(sample.memory_used_bytes)));
  set("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).",
      shown(mebibytes(sample.memory_free_bytes)));
  set("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", shown(sample.temperature_celsius));
  set("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", shown(sample.power_watts));
  telemetry::Gauge& xid =
      metrics_.gauge("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", labels);
  if (!sample.xids.empty()) xid.set(sample.xids.back());
  if (sample.uncorrected_errors)
    metrics_
        .counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.",
                 labels)
        .raise_to(*sample.uncorrected_errors);
}

void HealthMetrics::on_verdicts(const std::vector<Verdict>& standing) {
  for (const Verdict& verdict : standing)
    metrics_
        .gauge("gpunode_drained", "1: a figure of it is bad, and it should get no more work",
               {{"subject", verdict.subject}})
        .set(verdict.drain ? 1 : 0);
}

}  // namespace gpunode::health
