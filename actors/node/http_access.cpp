#include "actors/node/http_access.hpp"

#include "actors/node/local_address.hpp"

namespace gpunode::node {

Result<HostPort> http_place(const NodeConfig& config) {
  const HttpAccess& access = config.http_access;
  auto place = parse_address("--http", config.http);
  if (!place) return place.error();
  if (access.certificate.empty() != access.key.empty())
    return Error{ErrorCode::invalid_argument,
                 "TLS wants both --http-tls-cert and --http-tls-key: there is only the " +
                     std::string(access.key.empty() ? "certificate" : "key")};
  if (is_loopback(place->host) || !access.certificate.empty() || access.without_tls) return place;
  return Error{ErrorCode::invalid_argument,
               "--http " + config.http +
                   ": beyond loopback keys and texts would go in clear: give --http-tls-cert and "
                   "--http-tls-key, or take 127.0.0.1:PORT and a proxy in front of it; where the "
                   "network itself is trusted, --insecure-http no-tls says so"};
}

bool needs_keys(const NodeConfig& config, const HostPort& place) {
  return !is_loopback(place.host) && !config.http_access.without_keys;
}

Error no_keys(const NodeConfig& config) {
  return {ErrorCode::permission_denied,
          "--http " + config.http +
              ": beyond loopback it wants keys, and there is none that is good: `gpunode http-key "
              "create NAME` makes one; --insecure-http no-keys lets anybody ask who reaches it"};
}

}  // namespace gpunode::node
