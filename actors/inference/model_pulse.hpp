// Whether the models of a node get on: each model's thread says so with every pass, and once a second where
// it has nothing to do. Thread-safe; costs a lock that nobody else wants.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/base/clock.hpp"

namespace gpunode::inference {

class ModelPulses {
 public:
  // It is being loaded, or moved, which takes its time.
  void begin_loading(const std::string& model) { set(model, {.ready = false}); }
  void beat(const std::string& model, Time now) { set(model, {.ready = true, .last = now}); }
  void forget(const std::string& model) {
    std::lock_guard lock(mutex_);
    all_.erase(model);
  }

  // No model that is loaded was silent for so long.
  bool are_live(Time now, Duration longest) const {
    std::lock_guard lock(mutex_);
    for (const auto& [model, pulse] : all_)
      if (pulse.ready && now - pulse.last > longest) return false;
    return true;
  }
  // None is being loaded.
  bool are_ready() const {
    std::lock_guard lock(mutex_);
    for (const auto& [model, pulse] : all_)
      if (!pulse.ready) return false;
    return true;
  }

 private:
  struct Pulse {
    bool ready = false;
    Time last{};
  };
  void set(const std::string& model, Pulse pulse) {
    std::lock_guard lock(mutex_);
    all_[model] = pulse;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Pulse> all_;
};

}  // namespace gpunode::inference
