// Watches the node's children. A node whose cluster, calls, job board or admission actor has failed
// is no longer what the others think it is: it says why and ends, which is always safe, and its
// operator (or the service manager) starts it again. The health actor keeps nothing and is started
// again.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <string>
#include <vector>

namespace gpunode::node {

struct Child {
  std::string name;
  caf::actor actor;
  std::function<caf::actor()> restart;  // null: the node ends with this child
};

// `on_failure` is told the reason, once; on the supervisor's thread, and must not block.
caf::actor spawn_supervisor(caf::actor_system& system, std::vector<Child> children,
                            std::function<void(std::string)> on_failure);

}  // namespace gpunode::node
