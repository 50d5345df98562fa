// From the link's threads to the mailboxes: each topic has one actor; calls are taken right on the
// link's thread, and bulk of a running job
// goes straight to that job's actor, which is run on the bulk thread if it is idle. Also tells the
// detector, at most twenty times a second and peer, that a peer was heard, as any authenticated
// traffic is a life sign. What waits in a mailbox counts against its sender's limits until it was
// read there; what is over them goes no further. Owned by the node; called on the link's threads.
#pragma once

#include <caf/actor.hpp>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "actors/inline_delivery.hpp"
#include "actors/messages.hpp"
#include "actors/node/calls.hpp"
#include "actors/node/peer_limits.hpp"
#include "runtime/job/step_places.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct Heard {
  NodeId peer;
};

class Router {
 public:
  struct Targets {
    caf::actor cluster, job_board, admission;
    std::shared_ptr<Calls> calls;
    const security::Authority* authority = nullptr;  // says who may speak about jobs
    std::shared_ptr<PeerLimits> limits;
  };
  explicit Router(const Clock& clock) : clock_(clock) {}

  // Messages that come before are dropped; peers repeat what matters.
  void set_targets(Targets targets);
  // Who takes the job's bulk messages, and what knows their places; a null handle: nobody.
  void set_job(std::uint64_t stream, caf::actor job, std::shared_ptr<job::StepPlaces> places);
  // Drops the handles, for good; needed before the actor system ends.
  void clear();

  void on_message(const NodeId& from, transport::Lane lane, transport::Message message);
  // Where the payload of a job's bulk message is to be read to.
  WritableBytes place_of(const NodeId& from, const transport::MessageHead& head);
  // Whether the peer's bulk is to be read, or waits for the job that it is of.
  bool may_read(const NodeId& from);
  void on_state(const NodeId& peer, transport::Lane lane, LinkState state);
  // A stranger's frame at the join port.
  void on_knock(const std::string& address, Bytes frame, std::function<void(Bytes)> reply);

 private:
  bool due(const NodeId& peer);
  bool may_speak(const NodeId& from, transport::Topic topic) const;
  const caf::actor* target_of(transport::Topic topic) const;  // null: it has none

  const Clock& clock_;
  std::shared_mutex mutex_;
  Targets targets_;
  struct Job {
    caf::actor actor;
    std::shared_ptr<job::StepPlaces> places;
  };
  std::unordered_map<std::uint64_t, Job> jobs_;
  std::unique_ptr<InlineDelivery> on_bulk_thread_;
  bool cleared_ = false;
  std::mutex heard_mutex_;
  std::unordered_map<NodeId, Time> heard_;
};

}  // namespace gpunode::node
