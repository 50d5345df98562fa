// A job's history as bytes (schemas/history.fbs), for this node's disk and for other members.
#pragma once

#include "actors/job/job_history.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/wall_times.hpp"

namespace gpunode::jobs {

// Up to this step. `self`: this node, as others know it. Costs about 90 bytes a commit.
Bytes encode_history(JobHistory history, std::uint64_t up_to, const WallTimes& times,
                     const NodeId& self);
// Fails with corrupted, also where the sums cannot be those of the commits; never throws.
Result<JobHistory> decode_history(ByteView bytes, const WallTimes& times, const NodeId& self);

}  // namespace gpunode::jobs
