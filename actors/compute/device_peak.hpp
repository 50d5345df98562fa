// What a device can do at most, for how much of it training makes use of: a product that fits it
// well, in the precision of the job's, by as many threads as compute there. Some ten milliseconds,
// once a job; what else runs on the machine meanwhile lowers it, so the best ever seen counts.
#pragma once

#include "actors/compute/device_roster.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/precision.hpp"

namespace gpunode::compute {

// Measures, and notes it with the device. Where the clock does not move (a simulated one), the peak
// stays unknown. Fails with: out_of_memory, internal, device_lost; the peak stays what it was.
Result<void> measure_peak(DeviceUse& use, int workers, Precision precision, const Clock& clock);

}  // namespace gpunode::compute
