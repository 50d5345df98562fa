// What one peer may make this node do and keep: a rate for each kind of load, and a share of memory
// for what waits here of it. A peer that goes beyond is refused by its own limits alone, so it takes
// nothing from the others. The numbers leave ten times what honest nodes were seen to need among
// thirty (tests/sim/membership_rates_test.cpp, tests/process/flood_test.py).
// Which load a message or a call is stands in the table of needed_rights.cpp.
//
// Owned by the node; any thread. Costs a lock and a look into a table a message.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/security/offenders.hpp"
#include "runtime/security/rate_limit.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

enum class Load : std::uint8_t {
  none,       // nothing is kept of it, or it is of this node's owner
  gossip,     // who is here
  directory,  // what is offered
  admission,  // who may be here; joins that are relayed; heads of audit logs
  job,        // of jobs, on control
  job_bulk,   // of jobs, on bulk
  service,    // calls of what embedders and models offer
  question,   // calls that the job board answers at once
  work,       // calls that begin a job, or work on a thread
};
inline constexpr std::size_t kLoads = 9;

// What a frame that the link threw away counts.
double offence_of(transport::Dropped why);

// What becomes of what comes over the limit.
enum class WhenOver : std::uint8_t {
  taken,     // there is none
  dropped,   // thrown away: who sent it repeats what matters
  refused,   // the caller hears resource_exhausted
  held_back  // not read from the peer's connection until there is room
};

struct PeerLimit {
  Load load = Load::none;
  std::string_view name;
  double per_second = 0;  // messages; one of many bytes counts as several
  double burst = 0;       // at once
  std::size_t bytes = 0;  // that wait: messages unread, requests unanswered, answers unsent
  WhenOver over = WhenOver::taken;
};

std::span<const PeerLimit> peer_limits();
const PeerLimit& limit_of(Load load);
// As how many messages one of so many bytes counts.
double cost_of(std::size_t bytes);

class PeerLimits {
 public:
  struct Options {
    const Clock* clock = nullptr;
    telemetry::Registry* metrics = nullptr;
    const security::Authority* authority = nullptr;  // is told of what is refused, for the audit
    security::Offenders* offenders = nullptr;        // of what is dropped
  };
  // What counts as waiting for as long as it is held; it may outlive the limits.
  using Place = std::shared_ptr<const void>;

  explicit PeerLimits(const Options& options);

  // For a message of so many bytes; null: it is over the limit, which is counted.
  Place enter(const NodeId& from, Load load, std::size_t bytes);
  // For what is to be sent to the peer as the answer to something of that load; null likewise.
  Place hold(const NodeId& to, Load load, std::size_t bytes);
  // It sent what cannot be read.
  void sent_malformed(const NodeId& by) const;
  // Whether more of it is to be read, of a load that is held back.
  bool has_room(const NodeId& from, Load load) const;

 private:
  struct Peer {
    std::array<std::atomic<std::size_t>, kLoads> waiting{};
    Time seen{};
  };
  struct Held;

  std::shared_ptr<Peer> peer(const NodeId& node);
  Place take(std::shared_ptr<Peer> peer, const NodeId& node, Load load, std::size_t bytes);
  void refuse(const NodeId& node, Load load);
  void forget_idle(Time now);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<NodeId, std::shared_ptr<Peer>> peers_;
  Time next_look_{};                          // for idle ones
  std::vector<security::RateLimit> rates_;    // by load
  std::vector<telemetry::Counter*> taken_;    // likewise
  std::vector<telemetry::Counter*> refused_;  // likewise
};

}  // namespace gpunode::node
