#include "actors/inference/detail/page_hosts.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "runtime/base/ip_address.hpp"

namespace gpunode::inference {
namespace {

constexpr std::string_view kLocalEnds[] = {".local", ".lan", ".internal", ".home.arpa",
                                           ".localhost"};

// In small letters, without its port; empty where it is none.
std::string name_of(std::string_view host) {
  const std::size_t behind = host.starts_with('[') ? host.find(']') : 0;
  const std::size_t size = std::min(host.find(':', behind), host.size());
  const std::string_view port = host.substr(std::min(size + 1, host.size()));
  if (port.find_first_not_of("0123456789") != std::string_view::npos) return {};
  std::string name(host.substr(0, size));
  for (char& letter : name)
    if ('A' <= letter && letter <= 'Z') letter = static_cast<char>(letter + ('a' - 'A'));
  return name;
}

std::optional<IpAddress> address_in(std::string_view name) {
  if (name.starts_with('[') != name.ends_with(']')) return {};
  const bool is_v6 = name.starts_with('[');
  if (is_v6) name = name.substr(1, name.size() - 2);
  // What stands behind a '%' is no part of the address, and might be a name.
  return is_v6 || name.find('%') == std::string_view::npos ? IpAddress::parse(name) : std::nullopt;
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  const std::string name = name_of(host);
  if (name.starts_with('[')) return name == "[::1]";
  const auto address = address_in(name);
  return name == "localhost" || (address && address->is_loopback());
}

bool is_local_host(std::string_view host) {
  const std::string name = name_of(host);
  if (name.empty()) return false;
  if (address_in(name)) return true;
  return !name.starts_with('[') && (name.find('.') == std::string_view::npos ||
                                    std::ranges::any_of(kLocalEnds, [&](std::string_view end) {
                                      return name.ends_with(end);
                                    }));
}

}  // namespace gpunode::inference
