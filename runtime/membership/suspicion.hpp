// How long a silent member may still object. Pure arithmetic of Lifeguard's dynamic suspicion: the
// more observers agree, the shorter; the slower this machine, the longer.
#pragma once

#include <cstddef>
#include <set>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/membership/swim_config.hpp"

namespace gpunode::membership {

struct Suspicion {
  Time started{};
  Time asked{};                      // the others, again, for a second observer
  std::set<NodeId> observers = {};   // who found it silent, this node perhaps among them
  std::set<NodeId> refused_by = {};  // who saw a reset and a refused dial
  bool called_dead = false;          // by somebody who looks no further
};

// The least time for n live members on a machine of this health (0 = on time).
Duration suspicion_minimum(const SwimConfig& config, std::size_t live_count, int health);

// The time for `observers` of `wanted` observers; the minimum once all agree.
Duration suspicion_time(const SwimConfig& config, std::size_t live_count, int health,
                        std::size_t observers, std::size_t wanted);

}  // namespace gpunode::membership
