#include "kernels/model/registry.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "kernels/model/gpt.hpp"

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

std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[to.size()];
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
  if (!factory)
    return {ErrorCode::not_found, "no model kind '" + std::string(kind) +
                                      "' in this program; did you mean '" +
                                      nearest(kind, registered_kinds()) + "'?"};
  auto made = factory(settings);
  if (!made) return made.error().within("model '" + std::string(kind) + "'");
  return made;
}

Result<void> reject_unknown(const Settings& settings, const std::vector<std::string>& known) {
  for (const auto& [key, value] : settings)
    if (std::find(known.begin(), known.end(), key) == known.end())
      return {ErrorCode::invalid_argument,
              "unknown key '" + key + "'; did you mean '" + nearest(key, known) + "'?"};
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

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  auto best = std::min_element(known.begin(), known.end(),
                               [&](const std::string& left, const std::string& right) {
                                 return edits(word, left) < edits(word, right);
                               });
  return best == known.end() ? std::string() : *best;
}

}  // namespace gpunode::model
