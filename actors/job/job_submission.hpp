// One job on its way from a job file, or from the queue, to its candidates: asks every live node
// whether it is fit, chooses the candidates, and hands them the manifest and the names of those that
// were refused; or hands it to the nodes that hold it in the queue, where too few are fit for now. A
// short-lived actor, so that a slow node holds up nothing else.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/job/job_environment.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/messages.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/security/authority.hpp"

namespace gpunode::jobs {

struct FitNode {
  NodeId node;
  Fitness fitness;
};

// Who takes part: of the nodes that run the same version and model, hold the same data and compute
// the same bits the largest group, the submitter's own where there is a choice; the others become
// refusals that say why (job_fitness.hpp). Pure.
// Fails with invalid_argument when fewer than spec.min_nodes are fit, naming every refusal.
struct Choice {
  job::JobSpec spec;  // with candidates, data and fingerprint filled in
  std::vector<Refusal> refused;
};
Result<Choice> choose_candidates(const job::JobSpec& spec, std::vector<FitNode> fit,
                                 std::vector<Refusal> refused, const NodeId& self,
                                 const std::function<std::string(const NodeId&)>& name_of);
// The same before anyone asks whether they are enough.
Choice choose(const job::JobSpec& spec, std::vector<FitNode> fit, std::vector<Refusal> refused,
              const NodeId& self);

// A job that is in the queue already.
struct Queued {
  JobId id;
  std::vector<NodeId> holders;
  std::uint64_t round = 0;  // of the ballot that is to start it
  // Accepted by this node already, so that it starts with this or what others have accepted, if it
  // does: who is fit by now plays no part. Empty: nothing is.
  Bytes accepted = {};
};

struct SubmissionOptions {
  job::JobSpec spec;
  NodeId self;
  const ClusterState* cluster = nullptr;
  caf::actor calls;
  // JSON: job, name, candidates, refused, and phase "waiting" where it waits; or an error:
  // invalid_argument (it can never start so), out_of_memory, unavailable (it can when more nodes,
  // or more of their memory, are there).
  std::function<void(std::string)> answer;
  bool may_wait = false;  // go to the queue rather than be refused
  std::optional<Queued> queued = {};
  // Tells what would become of the job (job_plan.hpp), and hands out nothing.
  std::optional<ModelFigures> only_check = {};
  std::optional<Error> refusal = {};  // of the check: why it would not even be looked at
  const security::Authority* authority = nullptr;  // signs that a job is not started after all
  const Clock* clock = nullptr;
};
void spawn_submission(caf::actor_system& system, SubmissionOptions options);

}  // namespace gpunode::jobs
