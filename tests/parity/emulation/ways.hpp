// The ways in which a kernel is run that must have the same bits in all of them, and wrong ones in some
// where a barrier, a wait or a commit is left out.
#pragma once

#include "tests/parity/emulation/engine.hpp"

namespace gpunode::parity {

struct Way {
  emulation::Schedule schedule;
  emulation::Landing landing;
};
inline constexpr Way kWays[] = {
    {emulation::Schedule::first_warp, emulation::Landing::at_once},
    {emulation::Schedule::random, emulation::Landing::at_wait},
    {emulation::Schedule::last_warp, emulation::Landing::at_wait},
    {emulation::Schedule::first_warp, emulation::Landing::at_wait},
    {emulation::Schedule::random, emulation::Landing::at_once},
    {emulation::Schedule::last_warp, emulation::Landing::at_once},
};

}  // namespace gpunode::parity
