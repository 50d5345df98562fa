// Whether a new node can be reached where it says: the part of JoinServer that dials back. Who holds a
// token could else make this node knock wherever it likes, and learn what answers. So a dial-back
// goes to the address that the caller comes from, and to those that this node's owner has named
// (--allow), each try counts as an attempt of the caller's, and what did not answer is told in one
// way, whatever the cause.
#include "runtime/security/join_server.hpp"

#include "runtime/security/detail/join_party.hpp"

#include <algorithm>

namespace gpunode::security {

namespace {

constexpr std::size_t kMostTries = 2;
constexpr std::string_view kScheme = "tcp://";

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

struct Place {
  std::string host, port;
};

std::optional<Place> place_of(std::string_view endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kScheme) || colon < kScheme.size()) return std::nullopt;
  Place place{std::string(endpoint.substr(kScheme.size(), colon - kScheme.size())),
              std::string(endpoint.substr(colon + 1))};
  const bool number = !place.port.empty() && place.port.size() <= 5 &&
                      place.port.find_first_not_of("0123456789") == std::string::npos;
  if (place.host.empty() || !number) return std::nullopt;
  if (place.host.front() == '[') place.host = place.host.substr(1, place.host.size() - 2);
  return place;
}

std::string endpoint_of(const IpAddress& address, const std::string& port) {
  const std::string host = address.text();
  return std::string(kScheme) + (address.is_v4() ? host : "[" + host + "]") + ":" + port;
}

}  // namespace

// A name is not looked up: what listens at the caller's own address is tried for it.
std::vector<std::string> JoinServer::dialable(Time now, const std::vector<std::string>& endpoints,
                                              const std::string& address) {
  const auto source = IpAddress::parse(address);
  if (!source) return {};
  std::vector<IpAddress> own;
  if (parts_.own_addresses)
    for (const std::string& text : parts_.own_addresses())
      if (const auto one = IpAddress::parse(text)) own.push_back(*one);
  const bool is_here = source->is_loopback() || std::ranges::find(own, *source) != own.end();
  std::vector<std::string> out;
  for (const std::string& endpoint : endpoints) {
    const auto place = place_of(endpoint);
    if (!place || out.size() == kMostTries) continue;
    const IpAddress target = IpAddress::parse(place->host).value_or(*source);
    const bool may =
        target == *source ||
        (is_here && (target.is_loopback() || std::ranges::find(own, target) != own.end())) ||
        (!parts_.dial_too.empty() && parts_.dial_too.allow(target));
    if (may && rate_.allow(detail::party(address), now))
      out.push_back(endpoint_of(target, place->port));
  }
  return out;
}

JoinServer::Actions JoinServer::check_address(Time now, WallTime wall, const Origin& origin,
                                              JoinRequest request) {
  if (request.record.advertised.empty()) return admit(wall, origin, request, false, {});
  if (pending() >= kMaxPending) {
    return refuse(wall, origin, request, JoinRefusal::too_many, "64 joins are in progress here");
  }
  const std::uint64_t number = next_number_++;
  const std::vector<std::string> told = request.record.advertised;
  checks_[number] = {origin, std::move(request), now + kDialBackTerm};
  if (origin.via) return {DialWish{*origin.via, origin.number, told}};
  std::vector<std::string> endpoints = dialable(now, told, origin.address);
  if (endpoints.empty()) return conclude(wall, number, false, origin.address);
  return {DialBack{number, std::move(endpoints)}};
}

JoinServer::Actions JoinServer::on_dial_wish(Time now, const NodeId& issuer, std::uint64_t relay,
                                             const std::vector<std::string>& endpoints) {
  const auto found = relays_.find(relay);
  if (found == relays_.end() || found->second.issuer != issuer || found->second.dialled) return {};
  Relayed& relayed = found->second;
  relayed.dialled = true;
  std::vector<std::string> own = dialable(now, endpoints, relayed.address);
  if (own.empty() || pending() >= kMaxPending)
    return {DialOutcome{issuer, relay, false, relayed.address}};
  const std::uint64_t number = next_number_++;
  wishes_[number] = {issuer, relay, now + kDialBackTerm};
  return {DialBack{number, std::move(own)}};
}

JoinServer::Actions JoinServer::on_dial_outcome(WallTime wall, const NodeId& via,
                                                std::uint64_t relay, bool reached,
                                                std::string seen_from) {
  for (const auto& [number, check] : checks_)
    if (check.origin.via == via && check.origin.number == relay)
      return conclude(wall, number, reached, seen_from);
  return {};
}

JoinServer::Actions JoinServer::on_dial_back(WallTime wall, std::uint64_t check,
                                             std::string_view reached) {
  if (const auto wish = wishes_.extract(check))
    return {DialOutcome{wish.mapped().issuer, wish.mapped().relay, !reached.empty(), {}}};
  return conclude(wall, check, !reached.empty(), {});
}

// `seen_from`: whence the caller comes, where nothing that it named was to be dialled.
JoinServer::Actions JoinServer::conclude(WallTime wall, std::uint64_t check, bool reached,
                                         const std::string& seen_from) {
  const auto found = checks_.extract(check);
  if (!found) return {};
  const Check& waiting = found.mapped();
  const std::string told = joined(waiting.request.record.advertised);
  std::string why;
  if (!reached)
    why = seen_from.empty()
              ? "the cluster cannot connect to " + told
              : "this node is seen from " + seen_from + ", so nobody has tried whether it is at " +
                    told + ": behind NAT map the ports and advertise " + seen_from +
                    ", or name its network with --allow on the node that is joined at";
  if (!reached && waiting.request.record.must_be_reachable)
    return refuse(wall, waiting.origin, waiting.request, JoinRefusal::address_not_reachable,
                  std::move(why));
  return admit(wall, waiting.origin, waiting.request, reached, std::move(why));
}

}  // namespace gpunode::security
