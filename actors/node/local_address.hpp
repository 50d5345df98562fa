// Addresses of what nothing authenticates, and which only this machine may therefore reach.
#pragma once

#include <string>

#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

// What was written behind `flag`. Fails with invalid_argument unless it is an address of loopback.
Result<HostPort> parse_local_address(const std::string& flag, const std::string& written);

}  // namespace gpunode::node
