// Addresses that something is answered at: on this machine alone, unless it is known who asks.
#pragma once

#include <string>

#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

// What was written behind `flag`. Fails with invalid_argument unless it is an address of loopback.
Result<HostPort> parse_local_address(const std::string& flag, const std::string& written);
// Of what may be reached from elsewhere. Fails with invalid_argument unless it is an address of digits.
Result<HostPort> parse_address(const std::string& flag, const std::string& written);
bool is_loopback(const std::string& host);

}  // namespace gpunode::node
