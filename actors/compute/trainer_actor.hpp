// The device thread of one job: a detached actor that owns the Trainer and does in order what the
// job asks. Training never runs on CAF's pool. Between two waves of slices it looks into its
// mailbox, so that a changed plan or a shutdown is heard within one slice's time.
//
// One step, in the order in which it passes through here:
//   job::Compute -> gradients of slices, layer by layer, summed along the tree -> job::PartialRange
//   (each range of a cover node as soon as it is final, while backward goes on)
//   ... the job exchanges the sums with the other members ...
//   job::SpeculativeUpdate -> (the sum comes back, the step is not committed yet) AdamW of that
//   part beside the state, forward of the next step as far as its weights are made
//   ApplyTotal -> clip, AdamW, new weights packed; or what was made ready becomes the state ->
//   Applied
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <string>
#include <vector>

#include "actors/compute/trainer.hpp"

namespace gpunode::compute {

// What several devices of a node do not do for a job, for the log; empty: nothing. `speculates`:
// whether a single one would begin the next step ahead.
std::string devices_note(const std::vector<NodeDevice*>& devices, bool speculates);

// Spawns it. `job` gets TrainerReady or TrainerFailed first,
// later the answers.
caf::actor spawn_trainer(caf::actor_system& system, caf::actor job, Trainer::Options options);

}  // namespace gpunode::compute
