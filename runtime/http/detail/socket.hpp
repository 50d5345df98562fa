// The sockets of a server: what it listens on, and who has dialled.
#pragma once

#include <string>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::http::detail {

// Sets `place` to where it is, with the port that was taken. Fails as Server::open does.
Result<Descriptor> listen_on(const HostPort& wanted, HostPort& place);

struct Accepted {
  Descriptor socket;   // none: nobody is there, or `failure`
  std::string client;  // as digits; of an IPv4 address within an IPv6 one those of the former
  int failure = 0;     // as errno has it
};
Accepted accept_on(const Descriptor& listening);

Error socket_error(const std::string& what, const HostPort& place);

}  // namespace gpunode::http::detail
