// What this machine has and how busy it is, read from /proc and statvfs. Exists for `nodes`,
// verdicts and offers. Not thread-safe: one owner (the health actor) samples about once a second;
// a sample reads six small files. Unknown is not zero: every figure may be absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/clock.hpp"

namespace gpunode::probe {

struct HostSample {
  std::optional<double> cpu_load;  // busy share since the previous sample, 0..1
  // Share of the last ten seconds in which work waited for a processor, 0..1; also by containers.
  std::optional<double> cpu_pressure;
  std::optional<int> cpu_count;
  std::optional<double> load_average;  // of the last minute
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<std::uint64_t> memory_available_bytes;  // also under this process's own limit
  std::optional<std::uint64_t> disk_total_bytes;        // of the state directory's file system
  std::optional<std::uint64_t> disk_free_bytes;         // for unprivileged users
  std::optional<double> received_bytes_per_second;      // all interfaces but loopback
  std::optional<double> sent_bytes_per_second;
  std::optional<std::string> cpu_model;
};

// Tells this machine, as long as it is up, from all others: alike for all its processes, in
// containers too. Empty: unknown.
std::string machine_text(const std::filesystem::path& proc = "/proc");

// Reads <proc>/stat, pressure/cpu, meminfo, loadavg, net/dev, cpuinfo and the file system of `state_directory`.
class ProcHostProbe {
 public:
  explicit ProcHostProbe(std::filesystem::path state_directory,
                         std::filesystem::path proc = "/proc");
  // Rates and cpu_load are absent in the first sample.
  HostSample sample(Time now);

 private:
  struct CpuTimes {
    std::uint64_t busy = 0;
    std::uint64_t total = 0;
  };
  struct NetworkBytes {
    std::uint64_t received = 0;
    std::uint64_t sent = 0;
  };
  void sample_cpu(HostSample& sample);
  void sample_memory(HostSample& sample) const;
  void sample_disk(HostSample& sample) const;
  void sample_network(Time now, HostSample& sample);

  std::filesystem::path state_directory_;
  std::filesystem::path proc_;
  std::optional<CpuTimes> last_cpu_;
  std::optional<NetworkBytes> last_network_;
  Time last_network_time_{};
};

}  // namespace gpunode::probe
