// Storms: faults that a simulated world has only if it asks for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpunode::sim {

// What lasts longer than the protocol's timeouts, and what people do at the wrong moment. A world
// has none of them unless it asks, and draws them from a number of its own, so that worlds without
// them stay what they were.
enum class Storm : std::uint8_t {
  long_pause,      // a process is stopped for 5 to 60 s
  stuck_core,      // likewise the job's part alone, as in a write that hangs: its node is alive
  slow_votes,      // a vote takes up to 30 s to be durable
  full_disk,       // votes cannot be written: the job's part gives up, and is started again later
  no_checkpoints,  // none can be written for a while, copies neither
  power_cut,       // all nodes lose power at once
  new_disk,        // a node comes back under its name with an empty disk
  one_way,         // a link delivers in one direction only for 5 to 120 s
  skewed_lanes,    // one lane of a link is late by up to 10 s for a while
  late_copies,     // a message comes once more, up to two minutes later, even to a later life
  lost_machines,   // any number of them, for good
  edge_clocks,     // every clock is off by the most that is allowed; no rate: a world has it or not
  resume_from,     // a person orders to go back to some checkpoint
  two_recoveries,  // two nodes are told at once to go on without the others
  hangs,           // compute or the update of the state answers 1 to 60 s late
  flapping_spares,  // who is not a candidate goes and comes
  bad_disk,         // the newest checkpoint on a disk cannot be read any more
  stops,            // a person stops the job, and resumes it
  leaves,           // a node leaves, with or without time to do so
  kCount
};
constexpr auto kStormCount = static_cast<std::size_t>(Storm::kCount);
std::string_view to_string(Storm storm);
using StormRates = std::array<double, kStormCount>;

}  // namespace gpunode::sim
