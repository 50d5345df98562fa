// Forms the device group of a view on a thread of its own, as that waits for the other members: a
// detached actor that ends when it is done. `job` gets GroupInvited, at rank 0, and then GroupFormed.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include "actors/compute/device_roster.hpp"
#include "actors/messages.hpp"

namespace gpunode::compute {

// The device outlives it.
void spawn_group(caf::actor_system& system, caf::actor job, NodeDevice& device, FormGroup order);

}  // namespace gpunode::compute
