// Models by kind: a job file names "gpt" and its settings, an embedder adds kinds of its own before
// the node starts. Process-wide and thread-safe; our own are registered on first use.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::model {

// Reads settings; an unknown key or a value out of range is an error that says what would do
// (take_integer and reject_unknown below write those sentences).
using Factory = std::function<Result<std::unique_ptr<Model>>(const Settings&)>;

// Adds a kind. Fails with: already_exists, invalid_argument (no name, or no function).
Result<void> register_model(std::string kind, Factory factory);

// Fails with: not_found (unknown kind, naming the nearest), whatever the factory reports, internal
// (it threw or gave null), and invalid_argument (a description that cannot be right).
Result<std::unique_ptr<Model>> make_model(std::string_view kind, const Settings& settings);

std::vector<std::string> registered_kinds();

// invalid_argument naming the nearest known key if `settings` holds one that is not in `known`.
Result<void> reject_unknown(const Settings& settings, const std::vector<std::string>& known);

// The whole number under `key`, or `fallback`. Fails with: invalid_argument outside [low, high].
struct IntegerRange {
  std::int64_t fallback, low, high;
};
Result<std::int64_t> take_integer(const Settings& settings, const std::string& key,
                                  IntegerRange range);

// The number under `key`, or `fallback`. Fails with: invalid_argument outside [low, high].
struct RealRange {
  double fallback, low, high;
};
Result<double> take_real(const Settings& settings, const std::string& key, RealRange range);
// The shortest text that reads as this number.
std::string real_text(double value);

// A whole number among a model's settings, and what may be chosen.
template <class Config>
struct IntegerKey {
  const char* name;
  std::int64_t Config::*field;
  std::int64_t low, high;
};
// Any other number.
template <class Config>
struct RealKey {
  const char* name;
  double Config::*field;
  double low, high;
};

// Reads all of `keys` from settings into a configuration, whose own values stand in for what is
// absent; and the other way. Fails with: invalid_argument (an unknown key, a value out of range).
template <class Config, std::size_t kCount>
Result<Config> read_settings(const IntegerKey<Config> (&keys)[kCount], const Settings& settings,
                             std::span<const RealKey<std::type_identity_t<Config>>> reals = {}) {
  Config config;
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(key.name);
  for (const auto& key : reals) names.push_back(key.name);
  if (auto known = reject_unknown(settings, names); !known) return known.error();
  for (const auto& key : keys) {
    auto value = take_integer(settings, key.name, {config.*key.field, key.low, key.high});
    if (!value) return value.error();
    config.*key.field = *value;
  }
  for (const auto& key : reals) {
    auto value = take_real(settings, key.name, {config.*key.field, key.low, key.high});
    if (!value) return value.error();
    config.*key.field = *value;
  }
  return config;
}
template <class Config, std::size_t kCount>
Settings settings_of(const IntegerKey<Config> (&keys)[kCount], const Config& config,
                     std::span<const RealKey<std::type_identity_t<Config>>> reals = {}) {
  Settings settings;
  for (const auto& key : keys) settings[key.name] = std::to_string(config.*key.field);
  for (const auto& key : reals) settings[key.name] = real_text(config.*key.field);
  return settings;
}

}  // namespace gpunode::model
