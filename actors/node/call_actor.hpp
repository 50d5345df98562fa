// The mailbox of calls.hpp: hands on what other actors ask and publish, and what the detector tells,
// and keeps the time while calls wait.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <memory>

#include "actors/node/calls.hpp"

namespace gpunode::node {

caf::actor spawn_calls(caf::actor_system& system, const std::shared_ptr<Calls>& calls);

}  // namespace gpunode::node
