// Who is here, and who is gone: SWIM with Lifeguard's additions, as a pure state machine. Exists
// so that every wait in the house can be cancelled by one detector. Owned by the cluster actor,
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
// others could confirm), or when two observers (one if n < 4) saw a reset and a refused re-dial; this
// node must be among them. What others say of a death, whomever they name, only has it looked at, and
// shortens the wait once it was found silent from here too.
// Source: Das, Gupta, Motivala 2002 (SWIM); Dadgar, Phillips, Currey 2017 (Lifeguard).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/peer.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/membership/member_record.hpp"
#include "runtime/membership/membership_message.hpp"
#include "runtime/membership/rumor_queue.hpp"
#include "runtime/membership/suspicion.hpp"
#include "runtime/membership/swim_config.hpp"

namespace gpunode::membership {

struct Member {
  MemberRecord record;
  PeerHealth state = PeerHealth::alive;
  Time since{};  // of this state, on this node's clock
  Time heard{};  // last authenticated traffic from it

  bool is_live() const { return state == PeerHealth::alive || state == PeerHealth::suspect; }
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
  std::string reason;  // "silent", "connection refused", "others say so", "left", "joined", ...
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
  Swim(Swim&&) = default;  // there is one of each node
  Swim& operator=(Swim&&) = default;

  // Time passed. Call again after tick_interval(); calls that come late are noticed and forgiven to
  // the others.
  Actions on_tick(Time now);
  // A control message of kind membership from an authenticated peer. Bad bytes are counted and
  // dropped.
  Actions on_message(Time now, const NodeId& from, ByteView bytes);
  // Any other authenticated traffic from this peer: counts as an answer.
  Actions on_traffic(Time now, const NodeId& from);
  Actions on_connection(Time now, const NodeId& peer, LinkState state);
  // Says goodbye to everybody, seeds included, and again to whoever has not answered. Go on with
  // ticks, messages and connections until all_heard_goodbye(), or until a timeout.
  Actions leave(Time now);
  // It may not be here any more: gone at once, as if by its own wish. RecordSigning::admitted refuses
  // what comes of it from now on.
  Actions expel(Time now, const NodeId& id);
  // A member to be contacted: from a join answer or from the list of last known peers on disk.
  // Kept and re-tried for good. A record without a valid signature is dropped (and counted).
  Actions add_seed(Time now, const MemberRecord& record);
  // Replaces this node's own name, endpoints, labels and flags (id, keys and incarnation stay),
  // raises the counter and tells the others.
  Actions announce(Time now, const MemberRecord& changed);

  // Until the next probe while nothing is waited for; seldom while nobody else lives.
  Duration tick_interval() const;
  const MemberRecord& self() const { return self_; }
  // Everybody known but this node itself, in order of id.
  const std::map<NodeId, Member>& members() const { return members_; }
  const Member* find(const NodeId& id) const;
  // Members that are alive or suspect, this node included.
  std::size_t live_count() const;
  // After leave(): whether somebody has answered, who tells the others, or nobody is there to; and
  // whether there is nobody left who has not.
  bool goodbye_heard() const { return goodbyes_.empty() || goodbye_answered_; }
  bool all_heard_goodbye() const { return goodbyes_.empty(); }
  // 0 = on time, up to health_cap = this machine is slow; waits are scaled by 1 + this.
  int local_health() const { return health_; }
  // Messages and records dropped because they were malformed, unsigned or out of bounds.
  std::uint64_t rejected_messages() const { return rejected_; }
  // Of them those with a record that nobody has signed, and those that cannot be read.
  std::uint64_t forged_messages() const { return forged_messages_; }
  std::uint64_t malformed_messages() const { return malformed_; }

 private:
  struct Allowance {  // so many at once, and then so many a second
    double left = 0;  // as of `seen`
    Time seen{};

    bool any(Time now, double most, double per_second);
    bool take(Time now, double most, double per_second);
  };
  struct Track {
    std::optional<Suspicion> suspicion;  // while suspect
    bool reset_seen = false;             // the connection broke and nothing was heard since
    bool dial_asked = false;  // others saw it refused, and we asked for a dial of our own
    Time last_hint{};         // last Connect that we asked for
    Time unheard_until{};     // its rumours, as it passed on what nobody had signed
    Time contested{};         // what is said of this incarnation, when we last told it
    Allowance changes;        // of its record, in this life
    Allowance asks;           // to probe others for it
    Allowance asked_of;       // by others, to probe it for them
  };
  struct Probe {
    NodeId target;
    Time started{};
    Duration timeout{};  // to the indirect stage; three of them to the verdict
    bool indirect = false;
    std::map<NodeId, bool> helpers;  // who were asked; whether they said no
  };
  struct Relay {  // somebody asked us to probe `target`
    NodeId requester;
    std::uint64_t sequence = 0;
    NodeId target;
    Time deadline{};
  };
  struct Seed {
    MemberRecord record;
    Time next_try{};
    Duration pause{};
  };

  // Every entry point runs in here: the time is set and a pause of this machine noticed, before
  // anything is judged; and what changed is pushed.
  Actions run(Time now, const std::function<void()>& event);

  // swim.cpp: records, rumours, verdicts
  Member* known(const NodeId& id);
  bool acceptable(const MemberRecord& record);
  bool may_change(Track& track) const;
  // `called_dead`: by who tells of it.
  bool apply_record(const MemberRecord& record, std::string_view reason, bool called_dead = false);
  void apply_own_record(const MemberRecord& record);
  void apply_rumor(const NodeId& from, const Rumor& rumor);
  void apply_claim(const NodeId& from, const Rumor& rumor);
  void apply_doubt(Member& member, const Rumor& rumor);
  void contest(Member& member, const Rumor& rumor);
  void refute(const Incarnation& claimed);
  void begin_suspicion(Member& member, std::string_view reason);
  void suspect(Member& member);
  bool confirm(Member& member, const Rumor& rumor);
  void answered(const NodeId& id, bool direct);
  void set_dead(Member& member, std::string_view reason);
  void set_state(Member& member, PeerHealth state, std::string_view reason);
  bool judge(Member& member);
  bool contradicts(const Member& member, const Rumor& rumor) const;
  std::size_t confirmers(const NodeId& target) const;
  Suspicion& suspicion_of(const Member& member);
  void ask_for_dial(Member& member);
  void change_self(std::uint64_t counter);
  void take_connection(const NodeId& peer, LinkState state);

  // swim_probing.cpp: time and sending
  void take_rumors(const NodeId& from, const std::vector<Rumor>& rumors);
  void take_message(const NodeId& from, const Message& message);
  void take_goodbye_answer(const NodeId& from, const Message& message);
  void say_goodbye(const NodeId& to);
  void repeat_goodbyes();
  void forgive_lateness();
  void push();
  void advance_probes();
  void fail_probe(const Probe& probe);
  void start_probes();
  void start_probe(const Member& member);
  const Member* next_target();
  void judge_suspects();
  void repeat_gossip();
  void retry_dead();
  void retry_seeds();
  void sync_one();
  void forget_old();
  void shift_health(int by);
  void send(const NodeId& to, Message message, bool piggyback = true);
  void send_rumor(const NodeId& to, Rumor rumor);
  void send_table(const NodeId& to, bool reply_wanted);
  void hint_connect(Member& member);
  void urge(const NodeId& target);
  void probe_next(const NodeId& target);
  std::vector<NodeId> pick(std::size_t count, const std::function<bool(const Member&)>& accept);
  Rumor rumor_of(const Member& member, bool with_record) const;
  Rumor own_rumor() const;
  void tell(const Member& member, bool with_record);
  int tell_limit() const;
  Duration jittered(Duration duration);

  // swim_helping.cpp: probes through others
  void ask_helpers(std::uint64_t sequence, Probe& probe);
  void take_help(const NodeId& from, const Message& message);
  void take_request(const NodeId& from, const Message& message);
  void pass_answer_on(const NodeId& from, std::uint64_t sequence);
  void advance_relays();

  SwimConfig config_;
  RecordSigning signing_;
  Rng rng_;
  Time now_{};
  MemberRecord self_;
  std::map<NodeId, Member> members_;
  std::map<NodeId, Track> tracks_;
  std::map<NodeId, Seed> seeds_;
  std::map<NodeId, Time> strangers_;   // when we heard from each peer without a record
  std::map<NodeId, Time> last_table_;  // when each peer, known or not, last got a full table
  RumorQueue rumors_;
  bool push_wanted_ = false;
  Actions actions_;

  std::map<std::uint64_t, Probe> probes_;
  std::map<std::uint64_t, Relay> relays_;  // by our own sequence number
  std::deque<NodeId> urgent_;
  std::vector<NodeId> round_;
  std::uint64_t sequence_ = 0;
  int health_ = 0;
  bool conflict_told_ = false;
  std::map<NodeId, std::uint64_t> goodbyes_;  // not answered yet, by the sequence of the ping
  bool goodbye_answered_ = false;
  std::uint64_t rejected_ = 0, forged_messages_ = 0, malformed_ = 0;
  bool forged_ = false;  // a record of the message that is taken now
  Time last_run_{};
  Duration until_tick_;  // as tick_interval() was at the last tick
  Time next_probe_{};
  Time next_gossip_{};
  Time next_sync_{};
  Time next_retry_{};
};

}  // namespace gpunode::membership
