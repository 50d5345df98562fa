// Who is here, and who is gone: SWIM with Lifeguard's additions, as a pure state machine. Exists
// so that every wait in the house can be cancelled by one detector. Owned by the membership actor,
// which feeds it messages, link events and a tick (every SwimConfig::period / 4), and carries out
// the actions. Costs O(1) messages a node and period whatever n is; one table of n records.
//
//   state    | answer, traffic, newer record | silence or rumour     | evidence complete | goodbye
//   alive    | alive                         | suspect               | dead              | left
//   suspect  | alive                         | suspect, for shorter  | dead              | left
//   dead     | alive (newer record only)     | -                     | -                 | left
//   left     | alive (newer record only)     | -                     | -                 | -
//
// Evidence is complete when a suspicion timer runs out with two observers (one where fewer than two
// others could confirm), or when two observers (one if n < 4) saw a reset and a refused re-dial.
// Source: Das, Gupta, Motivala 2002 (SWIM); Dadgar, Phillips, Currey 2017 (Lifeguard).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/peer.hpp"
#include "runtime/membership/member_record.hpp"
#include "runtime/membership/swim_config.hpp"

namespace gpunode::membership {

struct Member {
  MemberRecord record;
  PeerHealth state = PeerHealth::alive;
  Time since{};  // of this state, on this node's clock
  Time heard{};  // last authenticated traffic from it
};

// Actions, in the order in which they are to be carried out.
struct Send {  // one datagram over the control channel; may be lost
  NodeId to;
  Bytes bytes;
};
// A member is new, has a new record or another state. A restarted member is the same id, alive, in
// a record of a higher boot: compare boots to see that what the old life held is gone.
struct Changed {
  MemberRecord record;
  PeerHealth state;
  std::string reason;  // "silent", "connection refused", "rumour", "left", "joined", ...
};
struct Connect {  // dial this node (again) and report up or refused
  MemberRecord record;
};
struct Forget {  // dropped from the table for good: close what belongs to it
  NodeId id;
};
// Our own identity is in use under a higher boot: a copied or restored state directory.
struct Conflict {
  MemberRecord other;
};
using Action = std::variant<Send, Changed, Connect, Forget, Conflict>;
using Actions = std::vector<Action>;

class Swim {
 public:
  // `self` needs no signature: it is signed here, and again at each change. `seed` feeds the
  // random choices (targets, jitter); equal inputs give equal actions.
  Swim(MemberRecord self, SwimConfig config, RecordSigning signing, std::uint64_t seed, Time now);
  ~Swim();
  Swim(Swim&&) noexcept;
  Swim& operator=(Swim&&) noexcept;

  // Time passed. Call every tick_interval(); calls that come late are noticed and forgiven to
  // the others.
  Actions on_tick(Time now);
  // A control message of kind membership from an authenticated peer. Bad bytes are counted and
  // dropped.
  Actions on_message(Time now, const NodeId& from, ByteView bytes);
  // Any other authenticated traffic from this peer: counts as an answer.
  Actions on_traffic(Time now, const NodeId& from);
  Actions on_connection(Time now, const NodeId& peer, LinkState state);
  // Says goodbye to everybody. Send the actions, then stop.
  Actions leave(Time now);
  // A member to be contacted: from a join answer or from the list of last known peers on disk.
  // Kept and re-tried for good. A record without a valid signature is dropped (and counted).
  Actions add_seed(Time now, const MemberRecord& record);
  // Replaces this node's own name, endpoints, labels and flags (id, keys and incarnation stay),
  // raises the counter and tells the others.
  Actions announce(Time now, const MemberRecord& changed);

  Duration tick_interval() const;
  const MemberRecord& self() const;
  // Everybody known but this node itself, in order of id.
  const std::map<NodeId, Member>& members() const;
  const Member* find(const NodeId& id) const;
  // Members that are alive or suspect, this node included.
  std::size_t live_count() const;
  // 0 = on time, up to health_cap = this machine is slow; waits are scaled by 1 + this.
  int local_health() const;
  // Messages and records dropped because they were malformed, unsigned or out of bounds.
  std::uint64_t rejected_messages() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace gpunode::membership
