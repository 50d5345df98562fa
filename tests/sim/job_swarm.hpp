// The worlds of swarms: from one number each, its size, which kinds of faults there are at all, how
// often they strike, and when. Drawn worlds leave out each kind in half of them, and draw rates on
// a scale of orders of magnitude: a fault that is everywhere hides what needs its absence.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

enum class Kind : std::uint8_t {
  normal,   // exact mode, an oracle for a detector
  small,    // one or two members, and spare nodes that could compute as well
  inexact,  // modes in which sums may differ from those of one node alone
  swim      // each node has a detector of its own
};
constexpr Kind kKinds[] = {Kind::normal, Kind::small, Kind::inexact, Kind::swim};
std::string_view to_string(Kind kind);
std::optional<Kind> kind_named(std::string_view name);

// The upper half of each float, and what is cut off comes back in the next step.
std::shared_ptr<const collective::WireForms> upper_halves();
collective::Routing routing_of(const std::string& mode);

// Fixed rates for most faults: the worlds of numbered seeds.
WorldOptions world_of(std::uint64_t seed);
// The same faults in a job of one or two members, with spare nodes that could compute as well.
WorldOptions small_world_of(std::uint64_t seed);

// The grey faults that a drawn world may have. Those that usual_grey() leaves out are such that the
// product is known to fail: switch them on with what mends it.
using GreySet = std::array<bool, kGreyCount>;
GreySet usual_grey();
std::optional<Grey> grey_named(std::string_view name);  // words joined by '_'
using StormSet = std::array<bool, kStormCount>;
std::optional<Storm> storm_named(std::string_view name);
// A drawn world with some of these storms, at random and at planned moments; half of them last for
// minutes, with slow steps.
WorldOptions stormy_world(Kind kind, std::uint64_t seed, const GreySet& grey,
                          const StormSet& storms);
WorldOptions drawn_world(Kind kind, std::uint64_t seed, const GreySet& grey = usual_grey());

}  // namespace gpunode::sim
