#include "actors/node/local_address.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "actors/node/endpoints.hpp"

namespace gpunode::node {
bool is_loopback(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "[::1]";
}

Result<HostPort> parse_address(const std::string& flag, const std::string& written) {
  auto place = parse_host_port(written, 0);
  if (!place) return place.error().within(flag);
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  if (std::ranges::all_of(written, is_digit))
    return Error{ErrorCode::invalid_argument,
                 flag + " wants HOST:PORT, as 127.0.0.1:" + written + ", not a port alone"};
  if (place->host == "localhost") place->host = "127.0.0.1";
  return place;
}

Result<HostPort> parse_local_address(const std::string& flag, const std::string& written) {
  auto place = parse_address(flag, written);
  if (place && !is_loopback(place->host))
    return Error{ErrorCode::invalid_argument,
                 flag + " " + written +
                     ": it answers on loopback alone, as nothing authenticates who asks: take "
                     "127.0.0.1:PORT, and put a proxy that authenticates in front"};
  return place;
}

}  // namespace gpunode::node
