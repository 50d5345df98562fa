#include "actors/health/health_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>
#include <utility>

#include "actors/health/health_metrics.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"
#include "runtime/probe/xid.hpp"

namespace gpunode::health {
namespace {

using nlohmann::json;

constexpr auto kSampleEvery = std::chrono::seconds(2);
// Figures change all the time, and each change goes to many nodes.
constexpr Duration kTellEvery = std::chrono::seconds(30);

struct State {
  static inline const char* name = "health";
  HealthOptions options;
  VerdictPolicy policy;
  std::optional<HealthMetrics> metrics;
  json told_at_once;  // what was told last of that kind; null: nothing yet
  Time next_told{};
};
using Self = caf::stateful_actor<State>;

// Unknown is not zero: an absent figure is left out.
template <class T>
void put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

// Coarse figures change seldom, and what did not change is not told.
std::optional<double> rounded(const std::optional<double>& value, double unit) {
  if (!value) return value;
  return std::round(*value / unit) * unit;
}
std::optional<std::uint64_t> rounded(const std::optional<std::uint64_t>& value) {
  constexpr std::uint64_t kUnit = 64u << 20;
  if (!value) return value;
  return *value / kUnit * kUnit;
}

json host_json(const probe::HostSample& sample) {
  json out = json::object();
  put(out, "cpu_count", sample.cpu_count);
  put(out, "cpu_model", sample.cpu_model);
  put(out, "cpu_load", rounded(sample.cpu_load, 0.05));
  put(out, "cpu_pressure", rounded(sample.cpu_pressure, 0.1));
  put(out, "load_average", rounded(sample.load_average, 0.5));
  put(out, "memory_total_bytes", sample.memory_total_bytes);
  put(out, "memory_available_bytes", rounded(sample.memory_available_bytes));
  put(out, "disk_total_bytes", sample.disk_total_bytes);
  put(out, "disk_free_bytes", rounded(sample.disk_free_bytes));
  put(out, "received_bytes_per_second", rounded(sample.received_bytes_per_second, 1e6));
  put(out, "sent_bytes_per_second", rounded(sample.sent_bytes_per_second, 1e6));
  return out;
}

json gpu_json(const probe::GpuSample& sample) {
  json out = {{"index", sample.index}, {"lost", sample.lost}};
  put(out, "name", sample.name);
  put(out, "uuid", sample.uuid);
  put(out, "pci_bus_id", sample.pci_bus_id);
  put(out, "memory_total_bytes", sample.memory_total_bytes);
  put(out, "memory_free_bytes", rounded(sample.memory_free_bytes));
  put(out, "memory_used_bytes", rounded(sample.memory_used_bytes));
  put(out, "utilization_percent", sample.utilization_percent);
  put(out, "temperature_celsius", sample.temperature_celsius);
  put(out, "power_watts", rounded(sample.power_watts, 5.0));
  put(out, "uncorrected_errors", sample.uncorrected_errors);
  return out;
}

// What the driver reported, also of errors that condemn no device.
void tell_xids(const probe::GpuSample& gpu) {
  for (const unsigned xid : gpu.xids) {
    const auto meaning = probe::meaning_of_xid(xid);
    log::warning("health",
                 "gpu" + std::to_string(gpu.index) + ": " +
                     (meaning ? meaning->text
                              : "Xid " + std::to_string(xid) + ": see NVIDIA's Xid catalog"));
  }
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// That a device is out goes to all at once, figures from time to time.
void tell(Self* self, Time now, const probe::HostSample& host,
          const std::vector<probe::GpuSample>& gpus) {
  State& state = self->state;
  json at_once = {{"drained", json::array()}, {"lost", json::array()}};
  for (const Verdict& verdict : state.policy.drained())
    at_once["drained"].push_back({{"subject", verdict.subject}, {"reason", verdict.reason}});
  for (const probe::GpuSample& gpu : gpus) at_once["lost"].push_back(gpu.lost);
  if (at_once == state.told_at_once && now < state.next_told) return;
  const bool is_first = state.told_at_once.is_null();  // there are no rates in it yet
  state.next_told = now + (is_first ? kSampleEvery : kTellEvery);
  json out = {{"host", host_json(host)}, {"gpus", json::array()}, {"drained", at_once["drained"]}};
  for (const probe::GpuSample& gpu : gpus) out["gpus"].push_back(gpu_json(gpu));
  state.told_at_once = std::move(at_once);
  self->send(state.options.directory_writer,
             SetEntry{kHealthKey, to_bytes(as_bytes(text_of(out)))});
}

void sample(Self* self) {
  State& state = self->state;
  self->delayed_send(self, kSampleEvery, Tick{});
  Time now = state.options.clock->now();
  probe::HostSample host = state.options.host->sample(now);
  std::vector<probe::GpuSample> gpus = state.options.gpus->sample();
  for (const probe::GpuSample& gpu : gpus) tell_xids(gpu);
  auto verdicts = state.policy.on_host(now, host);
  for (Verdict& verdict : state.policy.on_gpus(now, gpus)) verdicts.push_back(std::move(verdict));
  for (const Verdict& verdict : verdicts)
    if (verdict.drain)
      log::warning("health", verdict.subject + " should be drained: " + verdict.reason);
    else
      log::info("health", verdict.subject + " has recovered");
  if (state.options.on_gpu)
    for (const Verdict& verdict : state.policy.standing())
      if (verdict.pci_bus_id) state.options.on_gpu(verdict);
  if (state.metrics) {
    state.metrics->on_host(host);
    state.metrics->on_gpus(gpus);
    state.metrics->on_verdicts(state.policy.standing());
  }
  tell(self, now, host, gpus);
}

caf::behavior behaviour(Self* self, std::shared_ptr<HealthOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  if (self->state.options.metrics)
    self->state.metrics.emplace(*self->state.options.metrics, host_name());
  std::string absent = self->state.options.gpus->absent_reason();
  if (!absent.empty()) log::info("health", absent + "; this node computes on the CPU");
  sample(self);
  return {
      [self](const Tick&) { sample(self); },
      [self](const Shutdown&) { self->quit(); },
  };
}

}  // namespace

caf::actor spawn_health(caf::actor_system& system, HealthOptions options) {
  return system.spawn<caf::detached>(behaviour,
                                     std::make_shared<HealthOptions>(std::move(options)));
}

}  // namespace gpunode::health
