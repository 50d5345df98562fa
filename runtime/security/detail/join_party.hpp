// Whose attempts to join count together.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/ip_address.hpp"

namespace gpunode::security::detail {

// An address, and of IPv6 the network, as one party has all of it.
inline std::string party(std::string_view address) {
  const auto ip = IpAddress::parse(address);
  return ip && !ip->is_v4() ? ip->network().text() : std::string(address);
}

}  // namespace gpunode::security::detail
