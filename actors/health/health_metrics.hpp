// The probes' figures as series: those of GPUs under the names and labels of NVIDIA's dcgm-exporter,
// so that its dashboards and alarms fit. Owned by the health actor, one thread. A figure that is not
// known, as a driver has lost the device, is not shown: the last one would be a lie.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/health/verdict_policy.hpp"
#include "runtime/probe/gpu_probe.hpp"
#include "runtime/probe/host_probe.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::health {

class HealthMetrics {
 public:
  // `metrics` outlives it; `host_name` is the label Hostname.
  HealthMetrics(telemetry::Registry& metrics, std::string host_name)
      : metrics_(metrics), host_name_(std::move(host_name)) {}

  void on_host(const probe::HostSample& sample);
  void on_gpus(const std::vector<probe::GpuSample>& samples);
  void on_verdicts(const std::vector<Verdict>& standing);

 private:
  void show(const telemetry::Labels& labels, const probe::GpuSample& sample);

  telemetry::Registry& metrics_;
  std::string host_name_;
  std::map<unsigned, telemetry::Labels> gpus_;  // by index, as they were known first
};

}  // namespace gpunode::health
