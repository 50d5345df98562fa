// How a model is called: by its name, or as one version of it alone, "NAME@NUMBER". No name has an '@'
// (check_model_name). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gpunode::inference {

inline constexpr char kBeforeVersion = '@';

inline std::string versioned(std::string name, std::uint64_t version) {
  return std::move(name) + kBeforeVersion + std::to_string(version);
}
inline bool names_version(std::string_view called) {
  return called.find(kBeforeVersion) != std::string_view::npos;
}
// The name alone.
inline std::string_view name_in(std::string_view called) {
  return called.substr(0, called.find(kBeforeVersion));
}

}  // namespace gpunode::inference
