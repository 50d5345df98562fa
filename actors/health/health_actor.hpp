// How this machine fares: samples host and GPUs every two seconds, writes the figures into this node's
// part of the directory for everybody to see, every half minute or as a device fails, and says once
// what is missing (no GPU, no driver). Its verdicts on GPUs go to whoever drains devices.
// Blocking reads of /proc and NVML happen on its own thread.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <memory>

#include "actors/health/verdict_policy.hpp"
#include "actors/messages.hpp"
#include "runtime/probe/gpu_probe.hpp"
#include "runtime/probe/host_probe.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::health {

struct HealthOptions {
  std::shared_ptr<probe::ProcHostProbe> host;
  std::shared_ptr<probe::GpuProbe> gpus;
  const Clock* clock = nullptr;
  caf::actor directory_writer;  // gets SetEntry "health", a JSON text
  // Gets the verdict on every GPU whose place on the bus is known, with every sample, changed or
  // not. On this actor's thread; may be empty.
  std::function<void(const Verdict&)> on_gpu;
  telemetry::Registry* metrics = nullptr;  // outlives the actor; null: nobody wants series
};

inline constexpr const char* kHealthKey = "health";

caf::actor spawn_health(caf::actor_system& system, HealthOptions options);

}  // namespace gpunode::health
