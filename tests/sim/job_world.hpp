// A world of virtual nodes that run one job: JobCores of the product, driven by one event queue
// from one seed, over links that delay, lose, repeat, break and get cut, with disks that lose what
// was not yet synced, crashes, restarts and pauses. Faults strike at random, and at planned moments
// that are known to be dangerous. Every action passes the checks.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/membership/swim.hpp"
#include "tests/sim/job_checks.hpp"
#include "tests/sim/job_coverage.hpp"
#include "tests/sim/job_disk.hpp"
#include "tests/sim/job_groups.hpp"
#include "tests/sim/job_model.hpp"
#include "tests/sim/job_storm.hpp"
#include "tests/sim/job_world_options.hpp"

namespace gpunode::sim {

// Who may order what is done with the job; no node of the world.
inline constexpr NodeId kOwner{{std::byte{0xfe}}};

class JobWorld {
 public:
  explicit JobWorld(WorldOptions options);
  WorldResult run();

  // For scenario tests: schedule something at a time, and look at a node.
  void at(Duration when, std::function<void()> act);
  void crash(std::size_t node);
  void restart(std::size_t node);
  void set_cut(std::size_t from, std::size_t to, bool cut);
  // Both ways.
  void cut_link(std::size_t one, std::size_t other) {
    set_cut(one, other, true);
    set_cut(other, one, true);
  }
  // Bytes of steps and states are swallowed, both ways, and every 15 s TCP gives up and dials anew;
  // control goes through. Until everything heals.
  void swallow_bulk(std::size_t one, std::size_t other);
  // With its clock: a hypervisor's pause, which no clock of the node counts.
  void pause(std::size_t node, Duration how_long, bool clock_too = false);
  // Its partial sums, or its updates of the state, do not come before so long.
  void hang_compute(std::size_t node, Duration how_long);
  void hang_apply(std::size_t node, Duration how_long);
  // With its disk; it never comes back.
  void lose_machine(std::size_t node);
  // The same node with a new disk.
  void restart_empty(std::size_t node);
  // All that its next lives know of the others, instead of all nodes.
  void set_hints_of(std::size_t node, std::vector<std::size_t> known) {
    nodes_[node].hints = std::move(known);
  }
  // Its part of the job ends without a word, and the node goes on: restart() starts it again.
  void kill_job(std::size_t node);
  // Every node loses power; those that are not lost come back.
  void cut_power(Duration back_low, Duration back_high);
  // What its disk holds of its newest checkpoint is not what was written.
  void spoil_checkpoint(std::size_t node);
  // Writes and copies of checkpoints on this node take so long from now on.
  void slow_checkpoints(std::size_t node, Duration each) { nodes_[node].checkpoint_takes = each; }
  bool holds_checkpoint(std::size_t node) const { return !nodes_[node].saved.empty(); }
  Result<void> order_at(std::size_t node, view::OrderKind kind, job::Actions& out,
                        std::uint64_t step = 0, bool anew = false);
  void stop_job(std::size_t node);
  void resume_job(std::size_t node);
  void resume_job_from(std::size_t node, std::uint64_t step);
  void strike(std::size_t node, Storm storm);
  void recover_job(std::size_t node);
  // Planned faults of that moment that wait for their number strike the next time.
  void strike_at_next(Moment what);
  // Its process ends once its core says so.
  void leave(std::size_t node, Duration timeout = std::chrono::seconds(25));
  bool alive(std::size_t node) const { return nodes_[node].core.has_value(); }
  job::JobCore& core(std::size_t node) { return *nodes_[node].core; }
  NodeId id(std::size_t node) const { return nodes_[node].member.node; }
  Time now() const { return now_; }
  // By the node's own clock, whose speed is a little off.
  Time clock(std::size_t node) const {
    const auto elapsed = static_cast<double>(now_.time_since_epoch().count());
    return Time{} + Duration(static_cast<std::int64_t>(elapsed * nodes_[node].speed)) -
           nodes_[node].stopped;
  }
  // What a detector would tell it, and a link.
  void tell_peer(std::size_t node, std::size_t peer, PeerHealth health) {
    feed(node, input_of(health), [&](job::Actions& out) {
      nodes_[node].core->on_peer(clock(node), id(peer), health, out);
    });
  }
  void tell_link(std::size_t node, std::size_t peer, LinkState state) {
    feed(node, input_of(state),
         [&](job::Actions& out) { nodes_[node].core->on_link(clock(node), id(peer), state, out); });
  }
  // One more word to a node that runs, from whoever that is.
  void tell(std::size_t to, const NodeId& from, job::JobMessage message);
  std::uint64_t highest_commit() const { return checks_->highest_commit(); }
  void distrust(const NodeId& liar) { checks_->distrust(liar); }
  // When each step was first committed anywhere.
  const std::map<std::uint64_t, Time>& commit_times() const { return commit_times_; }
  const std::set<NodeId>& computed_slices() const { return computed_; }

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator>(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };
  struct Node {
    view::Member member;
    double speed = 1;                                     // of its clock
    Duration stopped{};                                   // that its clock has missed
    Time compute_hangs{}, apply_hangs{};                  // until then
    Time votes_hang{}, votes_fail{}, checkpoints_fail{};  // likewise
    bool stuck = false;                                   // paused, but its detector answers for it
    bool lost = false;                                    // the machine, for good
    std::optional<std::vector<std::size_t>> hints;
    bool job_dead = false;  // and the node goes on
    std::optional<job::JobCore> core;
    std::optional<membership::Swim> swim;
    std::uint64_t life = 0;  // events of an earlier life are void
    Time paused_since{};
    Time paused_until{};
    std::vector<std::function<void()>> while_paused;
    Bytes votes;                                           // that this life began with
    std::deque<std::pair<std::uint64_t, Bytes>> unsynced;  // token, votes
    Time disk_free{};
    std::vector<float> state;
    std::uint64_t state_step = 0;
    Digest state_digest;
    Time state_free{};
    std::deque<std::function<void()>> state_acts;  // that wait, in order
    struct Saved {
      job::Checkpoint checkpoint;
      std::vector<float> state;
      bool bad = false;
    };
    std::vector<Saved> saved;  // on disk, the newest last
    // Stored once it was through with the job and the result was on its disk: a later life only
    // gives that to who lacks it.
    std::optional<job::Checkpoint> outcome;
    // The newest one that a node in this view can go on from; what it finds when it looks for one.
    job::Checkpoint newest_of(const view::View& view) const;
    Duration checkpoint_takes{};
    const Saved* saved_at(std::uint64_t step) const;
    job::Checkpoint checkpoint() const {
      return saved.empty() ? job::Checkpoint{} : saved.back().checkpoint;
    }
    std::set<collective::TreeNode> computing;
    std::uint64_t computing_step = 0;
    std::uint64_t salt = 0;  // of its history, in the gradients of computing_step
    Time compute_free{};
    collective::ComputeTimes times;          // of computing_step
    std::uint64_t compute_id = 0;            // of the last Compute
    std::optional<Carrying> carrying;        // what that wants carried
    std::map<std::size_t, PeerHealth> seen;  // what its detector says of others
    bool finished = false;
    bool leaves = false;  // asked to, in this life
    bool recruited = false;
    bool coming = false;   // it has left, and is started again soon
    Time forcing_until{};  // a person has ordered it to go on without a quorum
    bool gone = false;     // by its own wish, and the others go on: it is not started again
    bool hurried = false;  // and its time was over before the others knew
    Duration timeout{};    // of its leave
    Time leave_by{};
    bool late = false;                 // it left because its time to leave was over
    Time uplink_free{}, uplink_low{};  // for learners' parts the latter
    std::uint64_t low_bytes = 0;       // of the last one of them
  };
  struct Wire {
    std::array<Time, 2> last{};  // control, bulk: order is kept within each
    Time free{};                 // bulk: when what was sent before is through
    std::uint64_t connection = 0;
    bool cut = false;
    Time cut_until{};  // whatever heals
    bool swallows_bulk = false;
    std::array<Time, 2> late_until{};  // each lane
    std::array<Duration, 2> late_by{};
    Time contact{};    // as the detector sees it
    Time delivered{};  // the last message
  };

  void schedule(Time when, std::function<void()> act);
  void on_node(std::size_t node, Duration delay, std::function<void()> act);
  void start(std::size_t node);
  // A spare node that nobody has asked yet: it is up, and has no part in the job.
  bool is_idle(std::size_t node) const {
    return node + options_.witness_count >= nodes_.size() && !nodes_[node].recruited &&
           !nodes_[node].lost;
  }
  void feed(std::size_t node, Input kind, const std::function<void(job::Actions&)>& input);
  void carry_out(std::size_t node, job::Actions actions);
  void carry_out_one(std::size_t node, job::Action& action);
  void apply(std::size_t node, const job::Apply& apply);
  void commit(std::size_t node, const job::Committed& commit);
  void read_state(std::size_t node, const job::ReadState& read);
  void install_state(std::size_t node, const job::InstallState& install);
  void save_state(std::size_t node, const job::SaveState& save);
  void end_process(std::size_t node);
  void store_outcome(std::size_t node);
  void restore_state(std::size_t node, const job::RestoreState& restore);
  void read_saved(std::size_t node, const job::ReadSaved& read);
  void keep_copy(std::size_t node, const job::KeepCopy& copy);
  void look(std::size_t node);
  void enter_view(std::size_t node, const job::ViewInstalled& installed);
  void send(std::size_t from, const job::Send& send);
  void deliver(std::size_t from, std::size_t to, job::JobMessage message);
  void persist(std::size_t node, const job::Persist& write);
  void lose_power(std::size_t node);
  bool read_votes(std::size_t node);
  void count_disk_faults();
  void compute(std::size_t node, const job::Compute& wish);
  void open_group(std::size_t node, const job::OpenGroup& wish);
  void tell_group(std::size_t node, const view::ViewName& view, const std::string& trouble);
  void close_group(std::size_t node, const job::CloseGroup& order);
  void carry(std::size_t node);
  void finish_carrying(std::size_t node, std::uint64_t id);
  void fail_carrying(std::size_t node, std::uint64_t id, const std::string& why);
  void tell_sums(std::size_t node);
  void tell_sum(std::size_t node, collective::TreeNode tree_node);
  void with_state(std::size_t node, std::function<void()> act);
  void act_on_state(std::size_t node);
  Duration transfer_time(std::size_t from, std::size_t to, const job::JobMessage& message);
  void break_link(std::size_t a, std::size_t b);
  void detect();
  void start_swim(std::size_t node);
  void feed_swim(std::size_t node,
                 const std::function<membership::Actions(membership::Swim&)>& input);
  void carry_out_swim(std::size_t node, const membership::Actions& actions);
  void tell_swim(std::size_t node, std::size_t peer, LinkState state);
  void send_gossip(std::size_t from, std::size_t to, const Bytes& bytes);
  void random_faults();
  void grey_faults();
  void storms();
  void storm_moment(std::size_t node, std::size_t moment);
  void late_moment(std::size_t node, LateMoment what) {
    storm_moment(node, static_cast<std::size_t>(Moment::kCount) + static_cast<std::size_t>(what));
  }
  void end_storms();
  void fail_job(std::size_t node);
  bool has_storm(Storm storm) const { return options_.storm[static_cast<std::size_t>(storm)] > 0; }
  Duration drawn(Duration low, Duration high);
  void struck(std::size_t node, Grey fault);
  // Of a fault with a share, not a rate: whether it strikes now.
  bool strikes(Grey fault) {
    const double share = options_.grey[static_cast<std::size_t>(fault)];
    return share > 0 && !calm_ && rng_.chance(share);
  }
  bool has_lost_a_machine() const;
  bool waits_for_what_is_lost();
  bool voters_are_lost() const;
  void expect_visible_wait();
  void random_orders();
  void tell_spares();
  job::JobCore::Options options_of(std::size_t node) const;
  void start_ticks(std::size_t node);
  void go_on_alone(std::size_t node);
  void order(std::size_t node, std::size_t other, Storm storm);
  void recruit(std::size_t node, std::size_t spare);
  void begin_faults();
  void conclude();
  void check_ends();
  void write_checkpoint(std::size_t node);
  void remove_old(std::size_t node);
  void give_up_checkpoints(std::size_t node, const job::GiveUpCheckpoints& order);
  void lose_saved(std::size_t node, std::uint64_t step);
  void keep_checkpoint(std::size_t node, const job::Checkpoint& checkpoint,
                       std::vector<float> state);
  std::vector<NodeId> heard_by(std::size_t node) const;
  void moment(std::size_t node, Moment what);
  void moments_of(std::size_t node, const job::JobMessage& message);
  void heal();
  bool all_finished() const;
  bool is_missed(std::size_t node) const;
  std::size_t index_of(const NodeId& id) const;
  bool sees(std::size_t node, std::size_t other) const;
  Duration between(Duration low, Duration high);
  void note(std::size_t node, const std::string& text) const;

  WorldOptions options_;
  Rng rng_;
  Rng storm_rng_;
  std::array<std::uint32_t, kStormMoments> storm_moments_{};
  Time now_{};
  std::uint64_t order_ = 0;
  std::int64_t ordered_ = 0;  // orders of a person so far
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Node> nodes_;
  std::deque<VoteDisk> disks_;  // by node
  std::vector<std::vector<Wire>> wires_;
  std::vector<NodeId> candidates_;
  std::optional<JobChecks> checks_;
  bool calm_ = false;  // the faults are over
  std::array<std::uint32_t, static_cast<std::size_t>(Moment::kCount)> moments_{};
  std::map<std::uint64_t, Time> commit_times_;
  Time looked_{};
  Time progress_{};  // when a step was committed that nobody had before
  std::set<NodeId> computed_;
  std::set<ViewName> witnessed_;
  std::map<ViewName, Group> groups_;
  WorldResult result_;
};

}  // namespace gpunode::sim
