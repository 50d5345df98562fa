// What the GPUs of this machine are and how they fare, from NVML opened at run time. Exists so
// that one binary starts with or without a driver: no library is no error, the list is empty and
// absent_reason() says why. Not thread-safe: one owner (the health actor) samples about once a
// second; a sample costs a few milliseconds a device. Unknown is not zero.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpunode::probe {

struct GpuSample {
  unsigned index = 0;
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_bus_id;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<std::uint64_t> memory_free_bytes;
  std::optional<std::uint64_t> memory_used_bytes;
  std::optional<unsigned> utilization_percent;
  std::optional<int> temperature_celsius;
  std::optional<double> power_watts;
  // Memory errors that could not be corrected, since the driver was loaded or the device reset.
  std::optional<std::uint64_t> uncorrected_errors;
  // Numbers of the driver's critical errors since the sample before, oldest first: see xid.hpp.
  // Those before the probe was opened are not told.
  std::vector<unsigned> xids;
  // The driver says that the device is lost or needs a reset: a verdict should drain it.
  bool lost = false;
};

class GpuProbe {
 public:
  virtual ~GpuProbe() = default;
  // One entry a device; empty where there is no driver.
  virtual std::vector<GpuSample> sample() = 0;
  // "no GPU driver: ..." where there is none; empty where devices can be asked. For one log line.
  virtual std::string absent_reason() const = 0;
  // Version of the driver, where known.
  virtual std::optional<std::string> driver_version() const = 0;
};

// Opens NVML. Never fails: without library or driver the probe answers with an empty list.
// `library`: for tests; the default is the name that every driver installs.
std::unique_ptr<GpuProbe> open_nvml_probe(const std::string& library = "libnvidia-ml.so.1");

}  // namespace gpunode::probe
