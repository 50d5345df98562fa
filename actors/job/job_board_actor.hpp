// The job board: all jobs of one node. Takes a job file, asks the live nodes whether they are fit,
// writes the manifest to the candidates' disks, starts the job actors, and takes part in jobs of
// others that want more members. A job's own actor (job_actor.hpp) decides everything about its
// steps; this one only starts, lists and remembers jobs. Jobs on disk are taken up again when the
// node restarts.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include "actors/cluster_state.hpp"
#include "actors/job/job_environment.hpp"
#include "actors/messages.hpp"
#include "runtime/job/step_places.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::jobs {

struct JobBoardOptions {
  NodeId self;
  Boot boot = 0;
  std::vector<std::string> labels;  // of this node, "key=value" or "key"
  const JobEnvironment* environment = nullptr;
  const ClusterState* cluster = nullptr;
  std::shared_ptr<transport::Link> link;
  collective::AddFn add;
  // Names the actor that takes a job's bulk messages, and what knows the places of their payloads;
  // null handles: nobody.
  std::function<void(std::uint64_t stream, caf::actor, std::shared_ptr<job::StepPlaces>)>
      route_bulk;
  caf::actor calls;             // CallRequest, Publish
  caf::actor directory_writer;  // SetEntry
  caf::actor audit;             // AuditNote
  telemetry::Registry* metrics = nullptr;
  Duration device_timeout = std::chrono::seconds(120);  // of no progress; then a device is lost
  std::shared_ptr<const view::Signer> signer;           // of this node's votes in jobs
  const security::Authority* authority = nullptr;       // says whose jobs and orders count
};

caf::actor spawn_job_board(caf::actor_system& system, JobBoardOptions options);

}  // namespace gpunode::jobs
