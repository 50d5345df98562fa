// What a node tells others about where it is: from what it was told itself, what it listens on, and which
// addresses the machine has, now and later.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::node {

struct Addresses {
  std::vector<std::string> control, bulk, join;  // "tcp://host:port"
  bool dial_only = false;
};

// Where to listen, by the address of the control port (NodeConfig::listen).
Result<Addresses> listen_endpoints(const std::string& listen);

struct Advertised {
  Addresses addresses;
  // Those to be told from now on, if the machine's have changed; blocks for one look at them. Null:
  // they are fixed, as an address was given, or a listener has just one.
  std::function<std::optional<Addresses>()> look;
};

// `listen` and `given` as in NodeConfig (its advertise); `bound`: the endpoints that are listened on.
// Warns in the log where no other machine can reach this one.
Result<Advertised> advertise(const std::string& listen, const std::string& given,
                             const Addresses& bound);

}  // namespace gpunode::node
