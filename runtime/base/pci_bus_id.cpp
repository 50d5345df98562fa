#include "runtime/base/pci_bus_id.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>

namespace gpunode {
namespace {

// The whole of `text` as a hex number below `end`.
std::optional<std::uint32_t> hex(std::string_view text, std::uint64_t end) {
  std::uint32_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, value, 16);
  if (error != std::errc() || stop != last || value >= end) return std::nullopt;
  return value;
}

// Cuts off what stands behind the last `mark`, and gives it; nothing where there is no mark.
std::optional<std::string_view> cut_last(std::string_view& text, char mark) {
  const auto at = text.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view last = text.substr(at + 1);
  text = text.substr(0, at);
  return last;
}

}  // namespace

std::optional<std::string> normal_pci_bus_id(std::string_view text) {
  const auto function = hex(cut_last(text, '.').value_or("0"), 8);
  const auto device_text = cut_last(text, ':');
  if (!device_text) return std::nullopt;
  const auto device = hex(*device_text, 32);
  const auto bus_text = cut_last(text, ':');
  const auto bus = hex(bus_text.value_or(text), 256);
  const auto domain = hex(bus_text ? text : "0", 1ull << 32);
  if (!function || !device || !bus || !domain) return std::nullopt;
  char normal[20];
  std::snprintf(normal, sizeof normal, "%08x:%02x:%02x.%x", *domain, *bus, *device, *function);
  return std::string(normal);
}

}  // namespace gpunode
