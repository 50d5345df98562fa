#include "actors/node/detail/devices.hpp"

#include <charconv>

namespace gpunode::node {

Result<DeviceChoice> parse_devices(const std::string& text) {
  constexpr std::string_view kList = "cuda:";
  if (text.empty() || text == "auto") return DeviceChoice{.uses_gpus = true};
  if (text == "cpu") return DeviceChoice{};
  DeviceChoice choice{.uses_gpus = true, .is_must = true};
  if (text == "cuda") return choice;
  const Error refused{ErrorCode::invalid_argument,
                      "a device is auto, cpu, cuda or a list like cuda:0,2; not '" + text + "'"};
  if (!text.starts_with(kList)) return refused;
  const char* at = text.data() + kList.size();
  const char* const end = text.data() + text.size();
  for (;;) {
    int ordinal = -1;
    const auto [rest, failed] = std::from_chars(at, end, ordinal);
    if (failed != std::errc() || ordinal < 0 || !choice.ordinals.insert(ordinal).second)
      return refused;
    if (rest == end) return choice;
    if (*rest != ',') return refused;
    at = rest + 1;
  }
}

}  // namespace gpunode::node
