// The total of a step from device to device: every member sends its partial sums, chunk by chunk, to
// the chunks' owners, which add them in the order of the job's tree and send the result to all. The
// bits are those of collective::AllReduce. Used by the trainer on its thread, one step at a time.
// Memory, in the group's region: own partial sums, those of others for the chunks owned here, and the
// result. Bytes sent: as AllReduce's, and 64 to each member.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "actors/compute/device.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/compute/partial_store.hpp"
#include "kernels/ops/device_group.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/collective/sum_station.hpp"
#include "runtime/job/job_actions.hpp"

namespace gpunode::compute {

struct GroupTotal {
  SharedSum sum;  // on the device; its tail on the host
  collective::DataFingerprint data_fingerprint;
};

class GroupSum {
 public:
  // All outlive this.
  GroupSum(ops::DeviceGroup& group, Device& device, DeviceUse& use, WorkerPool& workers,
           const Clock& clock)
      : group_(group), device_(device), use_(use), workers_(workers), clock_(clock) {}

  // `own`: the sums of this member's cover. `host`: of the total; as long as a sum. Fails with:
  // unavailable, timeout (the group is broken), out_of_memory, internal, device_lost.
  Result<GroupTotal> run(const job::Carry& step_is, std::uint64_t step,
                         const collective::Tree& tree, std::span<const NodeSum> own,
                         std::shared_ptr<std::vector<float>> host);

 private:
  struct Places;
  Result<void> put(const Places& places, std::uint64_t step, std::span<const NodeSum> own);
  Result<collective::DataFingerprint> read_notes(const Places& places, std::uint64_t step);
  Result<void> add(const Places& places);
  Result<SharedSum> take(const Places& places, std::shared_ptr<std::vector<float>> host);

  ops::DeviceGroup& group_;
  Device& device_;
  DeviceUse& use_;
  WorkerPool& workers_;
  const Clock& clock_;
};

}  // namespace gpunode::compute
