// The inside of Swim: one table of members, what is tracked of each, and the probes in flight.
// swim_core.cpp holds the table's rules (records, rumours, verdicts), swim_probing.cpp the rules of
// time (ticks, probes, relays, syncs, retries). Both run on the driver's thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/membership/membership_message.hpp"
#include "runtime/membership/rumor_queue.hpp"
#include "runtime/membership/suspicion.hpp"
#include "runtime/membership/swim.hpp"

namespace gpunode::membership {

class Swim::Core {
 public:
  Core(MemberRecord self, SwimConfig config, RecordSigning signing, std::uint64_t seed, Time now);

  void on_tick();
  void on_message(const NodeId& from, ByteView bytes);
  void on_traffic(const NodeId& from);
  void on_connection(const NodeId& peer, LinkState state);
  void leave();
  void add_seed(const MemberRecord& record);
  void announce(const MemberRecord& changed);

  // Every entry point runs between these two: the time is set and a pause of this machine noticed,
  // before anything is judged; and what changed is pushed.
  void begin(Time now);
  Actions finish();

  const SwimConfig& config() const { return config_; }
  const MemberRecord& self() const { return self_; }
  const std::map<NodeId, Member>& members() const { return members_; }
  std::size_t live_count() const;
  int health() const { return health_; }
  std::uint64_t rejected() const { return rejected_; }

 private:
  struct Track {
    std::optional<Suspicion> suspicion;  // while suspect
    bool reset_seen = false;             // the connection broke and nothing was heard since
    bool dial_asked = false;  // others saw it refused, and we asked for a dial of our own
    Time last_hint{};         // last Connect that we asked for
  };
  struct Probe {
    NodeId target;
    Time started{};
    Duration timeout{};  // to the indirect stage; three of them to the verdict
    bool indirect = false;
    std::size_t helpers = 0;
    std::size_t nacks = 0;
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

  // swim_core.cpp: records, rumours, verdicts
  bool acceptable(const MemberRecord& record);
  bool apply_record(const MemberRecord& record, std::string_view reason);
  void apply_own_record(const MemberRecord& record);
  void apply_rumor(const NodeId& from, const Rumor& rumor);
  void apply_claim(const NodeId& from, const Rumor& rumor);
  void apply_suspect(Member& member, const Rumor& rumor);
  void apply_dead(Member& member, const Rumor& rumor);
  void contest(const Member& member, const Rumor& rumor);
  void refute(const Incarnation& claimed);
  void suspect(Member& member);
  bool confirm(Member& member, const Rumor& rumor);
  void answered(const NodeId& id, bool direct);
  void set_dead(Member& member, std::string_view reason);
  void set_state(Member& member, PeerHealth state, std::string_view reason);
  bool judge(Member& member);
  bool contradicts(const Member& member, const Rumor& rumor) const;
  std::size_t confirmers(const NodeId& target) const;
  std::size_t wanted_observers(const NodeId& target) const;
  void change_self(std::uint64_t counter);

  // swim_probing.cpp: time and sending
  void forgive_lateness();
  void advance_probes();
  void fail_probe(const Probe& probe);
  void start_probes();
  void start_probe(const NodeId& target);
  std::optional<NodeId> next_target();
  void advance_relays();
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
  void ask_table(const NodeId& from);
  void hint_connect(Member& member);
  void urge(const NodeId& target);
  std::vector<NodeId> pick(std::size_t count, const std::function<bool(const Member&)>& accept);
  Rumor rumor_of(const Member& member, bool with_record) const;
  Rumor own_rumor() const;
  void tell(const Member& member, bool with_record);
  int tell_limit() const;
  Duration jittered(Duration duration);

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
  std::uint64_t rejected_ = 0;
  Time last_run_{};
  Time next_probe_{};
  Time next_gossip_{};
  Time next_sync_{};
  Time next_retry_{};
};

}  // namespace gpunode::membership
