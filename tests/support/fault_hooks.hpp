// What a test-only build of the binary does wrong on purpose, told by environment variables:
//   GPUNODE_FAULT=kill@<point>:<step>      SIGKILL itself at a fault point; step `*` is any, and
//                                          `12+` that or later. `exit` ends it with code 9
//   GPUNODE_FAULT_WHEN=<file>              ... but only once this file is there
//   GPUNODE_FAULT_ORDERS=<file>            while it is there: its line `<verb>@<point>` is followed
//                                          at the next such point, and the file removed before; a
//                                          verb is kill, exit, stop (SIGSTOP to itself), or hang:
//                                          threads that come there stand still until `go@<point>`
//   GPUNODE_FAULT_PACE_MS=<milliseconds>   each commit takes so much longer ...
//   GPUNODE_FAULT_PACE_AT=<point>          ... or each passing of this fault point ...
//   GPUNODE_FAULT_PACE_WHILE=<file>        ... while this file is there; a number in it counts more
//   GPUNODE_FAULT_DISK_FULL_AFTER=<bytes>  writing fails with disk_full after so many bytes ...
//   GPUNODE_FAULT_DISK_FULL_IN=<part>      ... to paths that contain this part (default: all)
//   GPUNODE_FAULT_CLOCK_SKEW=<seconds>     the wall clock goes wrong by so much
//   GPUNODE_FAULT_VERSION=<text>           the node takes itself for this version of gpunode
//   GPUNODE_FAULT_MODEL_LAYERS=<number>    its model "own", gpt on other nodes, has so many layers
//   GPUNODE_FAULT_GROUPS=1                 it has a device that forms groups (grouping_backend.hpp)
//   GPUNODE_FAULT_DEVICES=<id>@<place>,..  it has these devices, which are CPUs that sit at places of
//                                          the PCI bus where others may say that there are GPUs
//   GPUNODE_FAULT_LOG=<file>               one line for each fault that fired, on disk before it
//   does
#pragma once

#include <functional>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::compute {
class DeviceRoster;
}

namespace gpunode::testing {

// Null where the real one is to be used. They live as long as the process.
struct FaultyParts {
  storage::FileSystem* files = nullptr;
  const Clock* clock = nullptr;
  std::string version;
  std::function<void(compute::DeviceRoster&)> add_devices;
};

// Reads the variables and installs the hook of runtime/base/fault_point.hpp. A variable that cannot
// be read ends the process with code 64, so that no test passes without its fault.
FaultyParts install_faults();

}  // namespace gpunode::testing
