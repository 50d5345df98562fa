// Writes the checkpoints of one job, off the training thread: a detached actor that gets a copy of
// the state and answers when it is durable. Every member keeps whole checkpoints on its own disk,
// so each is there as often as the job has members; fit witnesses of small jobs hold copies. A
// failed write leaves the earlier ones untouched and the job running. One that is damaged or cannot
// be read is set aside and named to the job, with what is left.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include "kernels/model/model.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::checkpoint {

struct CheckpointOptions {
  JobId job;
  job::JobSpec spec;
  std::shared_ptr<const model::Model> model;
  storage::FileSystem* files = nullptr;
  storage::Path root;  // <state>/checkpoints
  const Clock* clock = nullptr;
};

// `job` gets a CheckpointWritten for each WriteCheckpoint, a CheckpointRead for each
// ReadCheckpoint, a CheckpointsFound for each FindCheckpoint and SetAsideCheckpoints; and a
// CheckpointsFound after each answer with which one was lost.
caf::actor spawn_checkpoints(caf::actor_system& system, caf::actor job, CheckpointOptions options);

}  // namespace gpunode::checkpoint
