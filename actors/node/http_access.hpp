// Whether the HTTP front may stand where it is told to: beyond loopback with keys and TLS alone, or where a
// person says that it may do without.
#pragma once

#include "actors/node/node.hpp"
#include "runtime/base/host_port.hpp"

namespace gpunode::node {

// Where it listens. Fails with invalid_argument: no address, one half of what TLS needs, or one beyond
// loopback without TLS.
Result<HostPort> http_place(const NodeConfig& config);

// Beyond loopback, unless --insecure-http says otherwise.
bool needs_keys(const NodeConfig& config, const HostPort& place);

// What to answer where keys are needed and there is none.
Error no_keys(const NodeConfig& config);

}  // namespace gpunode::node
