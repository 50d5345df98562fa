// A witness of a job computes nothing and writes no checkpoint; this actor is its trainer and its
// checkpoint writer, so that the job's actor need not tell the difference.
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>

#include "actors/job/job_actor.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::jobs {

caf::actor spawn_idle(caf::actor_system& system, caf::actor job) {
  return system.spawn([job](caf::event_based_actor* self) -> caf::behavior {
    ignore_all_messages(self);
    if (job) self->send(job, TrainerReady{1, {}, "none: a witness", {}, 0});
    return {[self](const Shutdown&) { self->quit(); }};
  });
}

}  // namespace gpunode::jobs
