// A witness of a job computes nothing and writes no checkpoint, nor does who only gives the result
// of one to others; this actor is its trainer and its checkpoint writer, so that the job's actor
// need not tell the difference.
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>

#include "actors/job/job_actor.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::jobs {

caf::actor spawn_idle(caf::actor_system& system, caf::actor job, std::uint64_t element_count) {
  return system.spawn([job, element_count](caf::event_based_actor* self) -> caf::behavior {
    ignore_all_messages(self);
    if (job) self->send(job, TrainerReady{element_count, {}, "none: it computes nothing", {}, 0});
    return {[self](const Shutdown&) { self->quit(); }};
  });
}

}  // namespace gpunode::jobs
