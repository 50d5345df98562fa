#include "actors/inference/model_pulse.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpunode::inference {
namespace {

// The model's, of which there may be several.
std::string_view model_of(std::string_view name) {
  return name.substr(0, name.find(" #"));
}

}  // namespace

void ModelPulses::begin_loading(const std::string& model) {
  {
    std::lock_guard lock(mutex_);
    all_[model].loading = true;
  }
  changed_.notify_all();
}

void ModelPulses::probe_by(const std::string& model, std::function<void()> ask) {
  std::lock_guard lock(mutex_);
  all_[model].ask = std::move(ask);
}

void ModelPulses::beat(const std::string& model, Time now) {
  std::lock_guard lock(mutex_);
  Pulse& pulse = all_[model];
  pulse.loading = false;
  pulse.last = now;
}

void ModelPulses::computed(const std::string& model, Time now, Result<void> how) {
  {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(model);
    if (found == all_.end()) return;
    Pulse& pulse = found->second;
    pulse.computed = now;
    pulse.how = std::move(how);
    if (!pulse.asked || now < *pulse.asked) return;  // what it did before says nothing
    pulse.asked.reset();
  }
  changed_.notify_all();
}

void ModelPulses::forget(const std::string& model) {
  {
    std::lock_guard lock(mutex_);
    all_.erase(model);
  }
  changed_.notify_all();
}

bool ModelPulses::are_live(Time now, Duration longest) const {
  std::lock_guard lock(mutex_);
  return std::ranges::none_of(all_, [&](const auto& one) {
    return !one.second.loading && now - one.second.last > longest;
  });
}

bool ModelPulses::is_fresh(const Pulse& pulse, Time now) const {
  return pulse.computed && now - *pulse.computed <= limits_.fresh;
}

std::optional<Result<void>> ModelPulses::known(const std::string& model, Time now) const {
  std::lock_guard lock(mutex_);
  const auto found = all_.find(model);
  if (found == all_.end() || !is_fresh(found->second, now)) return {};
  return found->second.how;
}

bool ModelPulses::is_replacing(const std::string& model) const {
  return std::ranges::any_of(all_, [&](const auto& other) {
    return model_of(other.first) == model_of(model) && !other.second.loading;
  });
}

// Of one that was not asked in vain.
Result<void> ModelPulses::told_of(const std::string& model, const Pulse& pulse) {
  const std::string which = "the model '" + std::string(model_of(model)) + "' ";
  if (pulse.loading) return {ErrorCode::unavailable, which + "is being loaded"};
  if (pulse.how) return {};
  return {ErrorCode::unavailable, which + "cannot answer: " + pulse.how.error().message()};
}

Result<void> ModelPulses::readiness(const Clock& clock) {
  std::vector<std::pair<std::string, Time>> waited_for;  // since when each was asked
  std::vector<std::function<void()>> asks;
  std::unique_lock lock(mutex_);
  const Time now = clock.now();
  for (auto& [model, pulse] : all_) {
    if (pulse.loading && is_replacing(model)) continue;
    if (pulse.loading || is_fresh(pulse, now)) {
      if (auto told = told_of(model, pulse); !told) return told;
      continue;
    }
    if (!pulse.asked) {
      pulse.asked = now;
      asks.push_back(pulse.ask);
    }
    waited_for.emplace_back(model, *pulse.asked);
  }
  lock.unlock();
  for (const auto& ask : asks)
    if (ask) ask();
  lock.lock();
  for (const auto& [name, asked] : waited_for) {
    const auto is_told = [&, &model = name] {
      const auto found = all_.find(model);
      return found == all_.end() || found->second.loading || !found->second.asked;
    };
    const Duration left = asked + limits_.answers_within - clock.now();
    if (!changed_.wait_for(lock, std::max(left, Duration::zero()), is_told))
      return {ErrorCode::unavailable,
              "the model '" + std::string(model_of(name)) +
                  "' has not answered a probe: its device is slow, or hangs"};
    const auto found = all_.find(name);
    if (found == all_.end()) continue;
    if (auto told = told_of(name, found->second); !told) return told;
  }
  return {};
}

}  // namespace gpunode::inference
