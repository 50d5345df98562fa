// "host:port" texts and what a node makes of them: the three ports it listens on, and the addresses
// that it tells others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

inline constexpr std::uint16_t kDefaultPort = 7601;  // control; bulk is one higher, join two

// "10.0.0.5:7601", "[::1]:7601", "node.example", "tcp://10.0.0.5:7601"; a missing port is
// `fallback_port`. Fails with invalid_argument, saying what is wrong with it.
Result<HostPort> parse_host_port(const std::string& written, std::uint16_t fallback_port);
std::string tcp_endpoint(const HostPort& place);  // "tcp://10.0.0.5:7601"

// The port at the end of "tcp://host:port"; 0 if there is none.
std::uint16_t port_of(const std::string& endpoint);

// Whether the host means every address of the machine.
bool is_wildcard(const std::string& host);
// The addresses of this machine that others may reach, the best first: of interfaces that are up and
// not loopback; last those that a machine gives itself (169.254).
std::vector<std::string> own_addresses();

// What a person is to be warned of who listens on a public address for anybody; empty: nothing.
// `own`: own_addresses().
std::string open_to_all(const std::string& listen, const std::vector<std::string>& allow,
                        const std::vector<std::string>& own);

}  // namespace gpunode::node
