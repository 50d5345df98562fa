// What the files of the jobs actor share: its state, and the functions that they call of each
// other. Included by jobs_actor.cpp (jobs come and go) and jobs_commands.cpp (what people ask)
// alone.
#pragma once

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <optional>
#include <string>

#include "actors/exchange/job_actor.hpp"
#include "actors/node/jobs_actor.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::node::jobs {

inline constexpr storage::RecordFormat kVotes{{'V', 'O', 'T', 'E'}, 1};
inline constexpr storage::RecordFormat kManifest{{'J', 'O', 'B', 'M'}, 1};
inline constexpr storage::RecordFormat kWitness{{'J', 'O', 'B', 'W'}, 1};
inline constexpr storage::RecordFormat kOutcome{{'J', 'O', 'B', 'O'}, 1};

struct Job {
  job::JobSpec spec;
  caf::actor actor;  // null for one that ended in an earlier life of this node
  exchange::JobProgress progress;
  std::shared_ptr<telemetry::SpanRing> spans;
  bool witness = false;   // this node only votes in it
  bool promoted = false;  // its actor ends, to start again as one that computes
  std::string outcome;    // the last report of one that ended, JSON
};

struct State {
  static inline const char* name = "jobs";
  JobsActorOptions options;
  std::map<JobId, Job> jobs;
  std::uint64_t lives = 0;           // of jobs' actors in this process
  std::map<JobId, Time> not_before;  // jobs of others that could not be joined: when to try again
};
using Self = caf::stateful_actor<State>;

inline Time now(Self* self) {
  return self->state.options.environment->options().clock->now();
}

// A small durable file of a job.
storage::DurableRecord record(Self* self, const JobId& id, const char* file,
                              storage::RecordFormat format);

// The job that a person means: a name (the newest of that name that still runs) or the beginning of
// an id.
std::optional<JobId> find_job(Self* self, const std::string& wanted);

// Carries out a person's command about one job; `forward`: by a node that has a part in it, if this
// one has none. `by`: the node at which the person sits.
void job_command(Self* self, const Command& command, const std::string& wanted, const NodeId& by,
                 bool forward);

// Answers "<job id>\n<step>" with this node's spans of that job from that step on.
void tell_spans(Self* self, const SharedBytes& request, const CallReply& reply);

void on_command(Self* self, const Command& command);

}  // namespace gpunode::node::jobs
