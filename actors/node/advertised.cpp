#include "actors/node/advertised.hpp"

#include <memory>

#include "actors/node/address_watch.hpp"
#include "actors/node/endpoints.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::node {
namespace {

// The bound endpoints under another host.
Addresses moved(const Addresses& bound, const std::string& host, int shift) {
  const auto at = [&](const std::vector<std::string>& endpoints) -> std::vector<std::string> {
    if (endpoints.empty()) return {};
    if (port_of(endpoints[0]) == 0) return endpoints;  // a twin's
    const auto port = static_cast<std::uint16_t>(port_of(endpoints[0]) + shift);
    return {tcp_endpoint({host, port})};
  };
  return {at(bound.control), at(bound.bulk), at(bound.join), bound.control.empty()};
}

}  // namespace

Result<Addresses> listen_endpoints(const std::string& listen) {
  if (listen.empty()) return Addresses{};
  auto place = parse_host_port(listen, kDefaultPort);
  if (!place) return place.error().within("listen address");
  if (place->port > 65533)
    return Error{ErrorCode::invalid_argument,
                 "the control port must leave room for two more: bulk is port + 1, join port + 2"};
  auto at = [&](int offset) {
    auto port = place->port == 0 ? 0 : place->port + offset;
    return std::vector<std::string>{tcp_endpoint({place->host, static_cast<std::uint16_t>(port)})};
  };
  return Addresses{at(0), at(1), at(2)};
}

Result<Advertised> advertise(const std::string& listen, const std::string& given,
                             const Addresses& bound) {
  const auto own = parse_host_port(listen, kDefaultPort);
  const std::uint16_t control = bound.control.empty() ? 0 : port_of(bound.control[0]);
  if (!given.empty()) {
    const auto place = parse_host_port(given, control);
    if (!place) return place.error().within("advertised address");
    // Behind a port mapping the three ports keep their distances.
    return Advertised{moved(bound, place->host, control == 0 ? 0 : place->port - control), {}};
  }
  const std::string host = own ? own->host : "";
  if (!is_wildcard(host) || control == 0) return Advertised{moved(bound, host, 0), {}};
  const std::vector<std::string> machine = own_addresses();
  if (machine.empty())
    log::warning("node",
                 "this machine has no address but loopback: no other machine can reach this node; "
                 "an address that appears is told to the others, or give one with --advertise");
  const std::string found = machine.empty() ? "127.0.0.1" : machine.front();
  auto watch = std::make_shared<AddressWatch>(found);
  return Advertised{moved(bound, found, 0), [watch, bound]() -> std::optional<Addresses> {
                      const auto other = watch->on_look(own_addresses());
                      if (!other) return std::nullopt;
                      return moved(bound, *other, 0);
                    }};
}

}  // namespace gpunode::node
