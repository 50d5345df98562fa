#include "actors/health/verdict_policy.hpp"

#include <cstdio>

#include "runtime/probe/xid.hpp"

namespace gpunode::health {

namespace {
std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100.0);
  return text;
}
std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}
}  // namespace

// A condition flips once readings have spoken against it without a break for long enough. A
// reading between the bounds confirms the present state.
void VerdictPolicy::observe(Time now, const std::string& subject, const std::string& figure,
                            Reading reading, const std::string& reason, Duration bad_for) {
  Condition& condition = conditions_[subject][figure];
  const Reading opposite = condition.active ? Reading::good : Reading::bad;
  if (reading != opposite) {
    condition.opposite_since.reset();
    if (condition.active && reading == Reading::bad) condition.reason = reason;
    return;
  }
  if (!condition.opposite_since) condition.opposite_since = now;
  const Duration needed = condition.active ? config_.good_for : bad_for;
  if (now - *condition.opposite_since < needed) return;
  condition.active = !condition.active;
  condition.opposite_since.reset();
  condition.reason = condition.active ? reason : std::string();
}

std::vector<Verdict> VerdictPolicy::on_host(Time now, const probe::HostSample& sample) {
  const auto reading_of = [](auto value, auto low, auto enough) {
    return value < low ? Reading::bad : value >= enough ? Reading::good : Reading::between;
  };
  if (sample.disk_free_bytes) {
    const std::uint64_t free = *sample.disk_free_bytes;
    observe(now, "node", "disk",
            reading_of(free, config_.low_disk_bytes, config_.enough_disk_bytes),
            "only " + mebibytes(free) + " free on the disk of the state directory, " +
                mebibytes(config_.low_disk_bytes) + " are needed: free some space",
            config_.bad_for);
  }
  if (sample.memory_available_bytes && sample.memory_total_bytes && *sample.memory_total_bytes) {
    const double share = static_cast<double>(*sample.memory_available_bytes) /
                         static_cast<double>(*sample.memory_total_bytes);
    observe(now, "node", "memory",
            reading_of(share, config_.low_memory_share, config_.enough_memory_share),
            "only " + percent(share) + " of the memory is available, " +
                percent(config_.low_memory_share) +
                " are needed: stop another program or give this node smaller jobs",
            config_.bad_for);
  }
  return collect_changes();
}

std::vector<Verdict> VerdictPolicy::on_gpus(Time now,
                                            const std::vector<probe::GpuSample>& samples) {
  for (const probe::GpuSample& sample : samples) {
    const std::string subject = "gpu" + std::to_string(sample.index);
    if (sample.pci_bus_id) pci_bus_ids_[subject] = *sample.pci_bus_id;
    observe(now, subject, "lost", sample.lost ? Reading::bad : Reading::good,
            "the driver has lost the device: see the kernel log, then reset it or restart the "
            "machine",
            Duration::zero());
    if (const auto errors = sample.uncorrected_errors)
      observe(now, subject, "memory", *errors > 0 ? Reading::bad : Reading::good,
              "its memory had " + std::to_string(*errors) +
                  " errors that could not be corrected: reset it, and replace it if they come back",
              Duration::zero());
    for (const unsigned xid : sample.xids)
      if (const auto meaning = probe::meaning_of_xid(xid); meaning && meaning->condemns)
        observe(now, subject, "xid " + std::to_string(xid), Reading::bad, meaning->text,
                Duration::zero());
    if (!sample.temperature_celsius) continue;
    const int celsius = *sample.temperature_celsius;
    observe(now, subject, "heat",
            celsius > config_.hot_celsius    ? Reading::bad
            : celsius < config_.cool_celsius ? Reading::good
                                             : Reading::between,
            std::to_string(celsius) + " C is above " + std::to_string(config_.hot_celsius) +
                " C: check fans and air flow",
            config_.bad_for);
  }
  return collect_changes();
}

Verdict VerdictPolicy::verdict_of(const std::string& subject) const {
  Verdict verdict{subject, false, {}};
  if (const auto known = pci_bus_ids_.find(subject); known != pci_bus_ids_.end())
    verdict.pci_bus_id = known->second;
  for (const auto& [figure, condition] : conditions_.at(subject)) {
    if (!condition.active) continue;
    verdict.drain = true;
    verdict.reason += (verdict.reason.empty() ? "" : "; ") + condition.reason;
  }
  return verdict;
}

std::vector<Verdict> VerdictPolicy::collect_changes() {
  std::vector<Verdict> changes;
  for (const auto& [subject, figures] : conditions_) {
    const Verdict verdict = verdict_of(subject);
    Verdict& announced = announced_.try_emplace(subject, Verdict{subject, false, {}}).first->second;
    if (verdict.drain != announced.drain) changes.push_back(verdict);
    announced = verdict;
  }
  return changes;
}

std::vector<Verdict> VerdictPolicy::drained() const {
  std::vector<Verdict> all;
  for (const auto& [subject, verdict] : announced_)
    if (verdict.drain) all.push_back(verdict);
  return all;
}

std::vector<Verdict> VerdictPolicy::standing() const {
  std::vector<Verdict> all;
  for (const auto& [subject, verdict] : announced_) all.push_back(verdict);
  return all;
}

}  // namespace gpunode::health
