#include "kernels/model/registry.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "kernels/model/bert.hpp"
#include "kernels/model/gpt.hpp"
#include "kernels/model/llama.hpp"
#include "kernels/model/mlp.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/resnet.hpp"
#include "runtime/base/nearest.hpp"

namespace gpunode::model {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Factory, std::less<>> factories{{"bert", make_bert},
                                                        {"gpt", make_gpt},
                                                        {"llama", make_llama},
                                                        {"mlp", make_mlp},
                                                        {"resnet", make_resnet}};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

Factory factory_of(std::string_view kind) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().factories.find(kind);
  return found == registry().factories.end() ? Factory{} : found->second;
}

Result<std::unique_ptr<Model>> checked(Result<std::unique_ptr<Model>> made) {
  if (!made) return made;
  if (!*made)
    return Error{ErrorCode::internal,
                 "its factory returned null as a success: return an Error instead"};
  // A checkpoint names it so.
  if (const std::string kind = (*made)->kind(); !factory_of(kind))
    return Error{
        ErrorCode::invalid_argument,
        "its kind() is not registered: " + unknown_word("model kind", kind, registered_kinds())};
  if (auto good = validate(**made); !good) return good.error();
  return made;
}

}  // namespace

Result<void> register_model(std::string kind, Factory factory) {
  if (kind.empty() || !factory)
    return {ErrorCode::invalid_argument, "a model kind has a name, and a function that makes it"};
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
  const Factory factory = factory_of(kind);
  if (!factory) return {ErrorCode::not_found, unknown_word("model kind", kind, registered_kinds())};
  auto made = guarded("its code", [&] { return checked(factory(settings)); });
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

Result<double> take_real(const Settings& settings, const std::string& key, RealRange range) {
  const auto found = settings.find(key);
  if (found == settings.end()) return range.fallback;
  const std::string& text = found->second;
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() ||
      !(value >= range.low && value <= range.high))
    return {ErrorCode::invalid_argument, key + " = '" + text + "' is not a number from " +
                                             real_text(range.low) + " to " + real_text(range.high)};
  return value;
}

std::string real_text(double value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

}  // namespace gpunode::model
