// Which Hosts a browser may name for a page of some website that has its own name lead here, and which no
// such page can have. Pure.
#pragma once

#include <string_view>

namespace gpunode::inference {

// "localhost", an IPv4 address of loopback, "[::1]"; each with or without a port.
bool is_loopback_host(std::string_view host);
// Also any address, a name without a dot, and those that are for networks of one's own (RFC 6762, 8375;
// ICANN's .internal).
bool is_local_host(std::string_view host);

}  // namespace gpunode::inference
