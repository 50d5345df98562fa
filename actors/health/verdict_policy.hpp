// When a probe's figures mean that a device or node should get no more work. Pure: samples in, one
// verdict a subject out. Exists so that a single odd reading drains nothing and a recovered device
// comes back by itself. Owned by the health actor. Costs a few comparisons a sample.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/probe/gpu_probe.hpp"
#include "runtime/probe/host_probe.hpp"

namespace gpunode::health {

struct VerdictConfig {
  // So long must a figure be bad before its subject is drained, and good before it comes back.
  // Raising them forgives longer spikes and reacts later.
  Duration bad_for = std::chrono::seconds(10);
  Duration good_for = std::chrono::seconds(30);
  // A device above `hot` is bad; it is good again only below `cool`.
  int hot_celsius = 92;
  int cool_celsius = 85;
  // Free disk of the state directory: checkpoints stop fitting below `low`; good above `enough`.
  std::uint64_t low_disk_bytes = 1ull << 30;
  std::uint64_t enough_disk_bytes = 2ull << 30;
  // Available share of the memory.
  double low_memory_share = 0.02;
  double enough_memory_share = 0.05;
};

struct Verdict {
  std::string subject;  // "node" or "gpu0"
  bool drain = false;
  std::string reason;  // names the figure, its bound and what to try; empty where drain is false
  // Of a GPU, as its driver says it; kept from an earlier sample where the driver has lost it.
  std::optional<std::string> pci_bus_id = std::nullopt;
  bool operator==(const Verdict&) const = default;
};

class VerdictPolicy {
 public:
  explicit VerdictPolicy(VerdictConfig config = {}) : config_(config) {}

  // The verdicts that changed with this sample. An absent figure changes nothing: it neither
  // drains nor clears. A lost device is drained at once, and so is one whose memory had errors that
  // could not be corrected: what was computed with them is wrong, and no reading takes them back
  // but a reset. An Xid that condemns its device does for good: no reading says that it is mended.
  std::vector<Verdict> on_host(Time now, const probe::HostSample& sample);
  std::vector<Verdict> on_gpus(Time now, const std::vector<probe::GpuSample>& samples);

  // All subjects that are drained now.
  std::vector<Verdict> drained() const;
  // Of all subjects whatever stands now, good or bad.
  std::vector<Verdict> standing() const;

 private:
  enum class Reading { good, between, bad };
  struct Condition {
    bool active = false;
    std::optional<Time> opposite_since;  // how long readings have spoken against `active`
    std::string reason;
  };
  void observe(Time now, const std::string& subject, const std::string& figure, Reading reading,
               const std::string& reason, Duration bad_for);
  std::vector<Verdict> collect_changes();
  Verdict verdict_of(const std::string& subject) const;

  VerdictConfig config_;
  std::map<std::string, std::map<std::string, Condition>> conditions_;  // subject, figure
  std::map<std::string, std::string> pci_bus_ids_;                      // of subjects that are GPUs
  std::map<std::string, Verdict> announced_;
};

}  // namespace gpunode::health
