// Has the holders of a waiting job agree on the manifest with which it starts (start_vote.hpp). A
// short-lived actor, which asks them by the calls "queue.promise" and "queue.accept".
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <vector>

#include "actors/job/start_vote.hpp"
#include "actors/messages.hpp"

namespace gpunode::jobs {

struct StartAgreement {
  JobId waiting;
  std::vector<NodeId> holders;
  view::Ballot ballot;
  Bytes manifest;  // proposed; or the order to remove the job: that it never starts
  caf::actor calls;
  // The manifest or order that is agreed on. Fails with: unavailable (too few holders answer, or another
  // node is about to start the job).
  std::function<void(Result<Bytes>)> done;
};
void spawn_start_agreement(caf::actor_system& system, StartAgreement agreement);

}  // namespace gpunode::jobs
