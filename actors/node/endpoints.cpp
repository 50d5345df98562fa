#include "actors/node/endpoints.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/ip_address.hpp"

namespace gpunode::node {

Result<HostPort> parse_host_port(const std::string& written, std::uint16_t fallback_port) {
  // What a node shows as its endpoint may be given back to it.
  const std::string text = written.starts_with("tcp://") ? written.substr(6) : written;
  auto bad = [&](const char* what) {
    return Error{ErrorCode::invalid_argument, "'" + text + "' is no address: " + what +
                                                  "; write host:port, such as 10.0.0.5:7601"};
  };
  std::string host = text, port;
  if (!text.empty() && text[0] == '[') {
    std::size_t close = text.find(']');
    if (close == std::string::npos) return bad("']' is missing");
    host = text.substr(0, close + 1);
    port = text.substr(close + 1);
    if (!port.empty() && port[0] != ':') return bad("':' is missing after ']'");
    if (!port.empty()) port = port.substr(1);
  } else if (std::size_t colon = text.rfind(':'); colon != std::string::npos) {
    if (text.find(':') != colon) return bad("IPv6 addresses are written in brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return bad("the port is missing after ':'");
  }
  if (host.empty()) return bad("the host is missing");
  if (host.find_first_of(" \t\r\n/\\'\"@,;#?") != std::string::npos)
    return bad("the host has a character that no name and no address has");
  HostPort place{host, fallback_port};
  if (port.empty()) return place;
  unsigned value = 0;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc{} || end != port.data() + port.size() || value > 65535)
    return bad("the port must be 0 to 65535");
  place.port = static_cast<std::uint16_t>(value);
  return place;
}

std::string tcp_endpoint(const HostPort& place) {
  return "tcp://" + place.host + ":" + std::to_string(place.port);
}

std::uint16_t port_of(const std::string& endpoint) {
  std::size_t colon = endpoint.rfind(':');
  unsigned value = 0;
  if (colon != std::string::npos)
    std::from_chars(endpoint.data() + colon + 1, endpoint.data() + endpoint.size(), value);
  return value > 65535 ? 0 : static_cast<std::uint16_t>(value);
}

bool is_wildcard(const std::string& host) {
  return host == "*" || host == "0.0.0.0" || host == "[::]";
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET) continue;
    if (!(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK)) continue;
    char text[INET_ADDRSTRLEN];
    auto* address = reinterpret_cast<sockaddr_in*>(entry->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)) found.emplace_back(text);
  }
  freeifaddrs(list);
  std::stable_partition(found.begin(), found.end(),
                        [](const std::string& text) { return !text.starts_with("169.254."); });
  return found;
}

std::string open_to_all(const std::string& listen, const std::vector<std::string>& allow,
                        const std::vector<std::string>& own) {
  const auto place = parse_host_port(listen, kDefaultPort);
  if (listen.empty() || !allow.empty() || !place) return {};
  std::vector<std::string> hosts = own;
  if (!is_wildcard(place->host)) hosts = {place->host};
  for (std::string host : hosts) {
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    const auto address = IpAddress::parse(host);
    if (address && address->is_public())
      return "anybody can knock at this node: it listens on the public address " + host +
             "; --allow 198.51.100.0/24 (repeatable, or allow in gpunode.toml) names those who may";
  }
  return {};
}

}  // namespace gpunode::node
