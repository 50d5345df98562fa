#include "kernels/model/registry.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "kernels/model/gpt.hpp"
#include "runtime/base/nearest.hpp"

namespace gpunode::model {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Factory, std::less<>> factories{{"gpt", make_gpt}};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Result<void> register_model(std::string kind, Factory factory) {
  std::lock_guard lock(registry().mutex);
  if (!registry().factories.emplace(kind, std::move(factory)).second)
    return {ErrorCode::already_exists,
            "a model kind '" + kind + "' is registered already: choose another name"};
  return {};
}

std::vector<std::string> registered_kinds() {
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> kinds;
  for (const auto& [kind, factory] : registry().factories) kinds.push_back(kind);
  return kinds;
}

Result<std::unique_ptr<Model>> make_model(std::string_view kind, const Settings& settings) {
  Factory factory;
  {
    std::lock_guard lock(registry().mutex);
    auto found = registry().factories.find(kind);
    if (found != registry().factories.end()) factory = found->second;
  }
  if (!factory) return {ErrorCode::not_found, unknown_word("model kind", kind, registered_kinds())};
  auto made = factory(settings);
  if (!made) return made.error().within("model '" + std::string(kind) + "'");
  return made;
}

Result<void> reject_unknown(const Settings& settings, const std::vector<std::string>& known) {
  for (const auto& [key, value] : settings)
    if (std::find(known.begin(), known.end(), key) == known.end())
      return {ErrorCode::invalid_argument, unknown_word("key", key, known)};
  return {};
}

Result<std::int64_t> take_integer(const Settings& settings, const std::string& key,
                                  IntegerRange range) {
  auto found = settings.find(key);
  if (found == settings.end()) return range.fallback;
  const std::string& text = found->second;
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < range.low ||
      value > range.high)
    return {ErrorCode::invalid_argument, key + " = '" + text + "' is not a whole number from " +
                                             std::to_string(range.low) + " to " +
                                             std::to_string(range.high)};
  return value;
}

}  // namespace gpunode::model
