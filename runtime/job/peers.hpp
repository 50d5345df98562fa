// Peers: what a job's core knows of the life of other nodes, and of the links to them: the
// detector's verdicts, what was heard, and whose bytes are waited for in vain. Pure; owned by a
// JobCore, read by all of its parts.
//
//   of a peer | message     | suspect   | dead, refused | silent in a step | breaks in vain
//   reached   | -           | suspected | gone          | unheard          | cut for 15 s, then longer
//   suspected | reached     | -         | gone          | unheard          | cut
//   unheard   | reached     | -         | gone          | -                | cut
//   cut       | after bytes | -         | gone          | unheard          | -
//   gone      | reached     | suspected | gone          | -                | -
//
//   a message that was under way when the verdict came, and an old word of the detector after a
//   refused dial, bring nobody back
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/peer.hpp"

namespace gpunode::job {

class Peers {
 public:
  void on_message(Time now, const NodeId& from);
  // What the detector says. False: an old word, which does not outweigh a refused dial.
  bool on_health(Time now, const NodeId& node, PeerHealth health);
  // A connection was (re)made, or a dial refused: the peer's process is gone.
  void on_link(Time now, const NodeId& node, LinkState state);
  // It says itself that it takes part no longer.
  void on_farewell(Time now, const NodeId& node);
  // These are candidates, or have a part in a view that is known here.
  void on_part(const std::vector<NodeId>& nodes) { parts_.insert(nodes.begin(), nodes.end()); }
  // Somebody said what is not for it to say (speakers.hpp).
  void on_unheard() { ++unheard_; }
  void on_refused_order() { ++refused_orders_; }
  // Another member cannot reach it.
  void on_doubt(Time now, const NodeId& node);
  // Bytes of a step came from it, or a new life of it dials anew: the data connection is sound.
  void on_bytes(const NodeId& from);
  // Its data connection broke. Whether it does so again and again, though it is heard otherwise
  // (within `alive_within`), and no bytes of a step come through.
  bool breaks_in_vain(Time now, const NodeId& node, Duration alive_within);
  // No step goes by it for a while: a break may be over soon, and to try a link that is still broken
  // costs all a stalled step, so each further cut within ten minutes holds twice as long.
  void cut(Time now, const NodeId& node);

  // A step waits for it since `since` at the earliest, or does not: how long it has been silent.
  Duration waited(Time now, const NodeId& node, bool awaited, Time since);
  // It was waited for in vain: the link to it is broken, whatever others hear of it.
  void give_up(Time now, const NodeId& node);

  bool gone(const NodeId& node) const;                 // dead, as far as anybody can know
  bool reached(Time now, const NodeId& node) const;    // as far as this node knows
  bool suspected(Time now, const NodeId& node) const;  // gone, or doubted
  Time heard(const NodeId& node) const;                // newest message; Time{}: never
  std::uint64_t unheard() const { return unheard_; }
  std::uint64_t refused_orders() const { return refused_orders_; }
  bool had_part(const NodeId& node) const { return parts_.contains(node); }
  std::vector<NodeId> known() const;
  std::vector<NodeId> unreached(Time now) const;

 private:
  struct Peer {
    PeerHealth health = PeerHealth::alive;
    bool refused = false;  // it is dead since a dial was refused, or it said farewell
    Time told_at{};        // that it is not alive
    Time heard{};
    Time doubted_until{};               // another member said that it cannot reach it
    std::optional<Time> awaited_since;  // its bytes or its DONE are missing since then
    bool unheard = false;               // was waited for in vain: the link to it is broken
    std::optional<Time> vain_since;     // the data connection broke, and no bytes of a step since
    Time cut_until{};                   // no bytes of a step get through
    Duration cut_for{};                 // how long the latest cut holds
    std::optional<Time> cut_at;         // when that began
  };
  const Peer* find(const NodeId& node) const;
  static void take(Time now, Peer& peer, PeerHealth health, bool refused);

  std::map<NodeId, Peer> peers_;
  std::set<NodeId> parts_;
  std::uint64_t unheard_ = 0;
  std::uint64_t refused_orders_ = 0;
};

}  // namespace gpunode::job
