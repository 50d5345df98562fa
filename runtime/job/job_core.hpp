// JobCore: one node's whole part in one job, as a pure state machine. It agrees on views, runs the
// all-reduce of each step, commits a step when every member holds the same result, and brings
// learners up to date. The job actor feeds it and carries out its actions; the simulator of
// tests/sim drives the very same class. No threads, clocks, sockets; actions must be carried out
// in order, and may be carried out at any later time.
//
//   phase    | means                                   | leaves by
//   outsider | knows the job, is no member             | VIEW that names it
//   learning | outsider, fetches state and results     | VIEW that names it
//   syncing  | member, fetches the state at base       | on_state_installed
//   running  | computes and exchanges step committed+1 | promise, last step
//   frozen   | promised: no commit in this view again  | VIEW
//   paused   | frozen, and no quorum for a while; or   |
//            | outside, and nobody answers             | VIEW, an answer
//   witness  | votes, computes nothing                | VIEW that does without it
//   stopped  | a person stopped the job; state kept | VIEW (after request_resume anywhere)
//   done     | the last step is committed              | VIEW (still answers peers)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/all_reduce.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/job/job_actions.hpp"
#include "runtime/job/job_message.hpp"
#include "runtime/job/lost_members.hpp"
#include "runtime/job/peers.hpp"
#include "runtime/job/step_places.hpp"
#include "runtime/job/watchdog.hpp"
#include "runtime/view/view.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::job {

// The timeout of request_leave that means: when others can go on.
inline constexpr Duration kWhenOthersCan = Duration::max();

// --- inputs --------------------------------------------------------------------------------

enum class Phase : std::uint8_t {
  outsider,
  witness,
  learning,
  syncing,
  running,
  frozen,
  paused,
  stopped,
  done
};
std::string_view to_string(Phase phase);
std::string_view to_string(collective::Lack lack);

// A step that stands still, and whom it waits for.
struct Stall {
  NodeId node;
  collective::Lack lack = collective::Lack::nothing;
  Duration lasts{};
};

// For people; see status().
struct JobStatus {
  Phase phase = Phase::outsider;
  std::uint64_t view_id = 0;
  std::uint64_t committed = 0;
  // Like committed; but where a lease is needed, only what was committed while it was known to hold
  // afterwards, so that no other member can have gone on from an earlier step by then.
  std::uint64_t reported = 0;
  bool needs_lease = false;   // the members alone are no quorum
  view::Floor durable;        // the newest checkpoint that no view goes behind; known to members
  std::uint32_t holders = 0;  // of it or a later one, as far as this node knows
  std::uint64_t total_steps = 0;
  std::vector<NodeId> members;
  std::vector<NodeId> witnesses;
  std::vector<NodeId> waiting_for;  // peers whose bytes, DONE or state are missing
  std::optional<Stall> stall;       // one of them, for much longer than a step usually takes
  std::uint64_t sync_received_bytes = 0;
  std::uint64_t sync_total_bytes = 0;
  std::uint64_t sync_results = 0;  // steps followed while learning
  std::uint64_t sync_behind = 0;   // committed steps whose results are still to come
  std::uint64_t carried = 0;       // steps whose results came here from device to device
  Duration sync_time{};            // since it began; whole once this node is a member
  Duration in_phase{};
  std::string reason;                  // why it is paused, has no new view, or does not get on
  std::optional<Watchdog::Hang> hang;  // of this node's own work
  std::vector<LostMember> lost;        // who was a member
  std::uint32_t generation = 0;
  bool stopped = false;  // by a person, as the newest view that is known here says
  // And nothing more is to come of it here: Stopped was told, or this node is no member.
  bool stop_told = false;
  std::optional<view::OrderKind> ordered;  // at this node, and not carried out yet
  std::uint64_t unheard = 0;         // messages of nodes that have no part in what they spoke of
  std::uint64_t unproven = 0;        // promises and proposals that are not what was promised
  std::uint64_t refused_orders = 0;  // that others told of, and whose signer may not give them
};

class JobCore {
 public:
  struct Timings {
    view::VoteTimings votes;
    Duration need_after = std::chrono::milliseconds(500);  // silence before the first NEED
    Duration stall = std::chrono::milliseconds(1000);      // silence of a suspected member
    // Silence of one that others call alive: it is asked every two seconds at least and answers at
    // once, so the link to it is broken. Raising it spares overloaded machines a view change, and
    // costs as long a stall where two members cannot reach each other.
    Duration stall_alive = std::chrono::milliseconds(5000);
    Duration join_every = std::chrono::milliseconds(500);    // repeat of JOIN
    Duration learn_every = std::chrono::milliseconds(100);   // likewise, while it learns
    Duration ready_within = std::chrono::milliseconds(250);  // work left to a ready learner
    Duration give_way = std::chrono::milliseconds(100);      // longest wait of a learner's part
    Duration admit_every =
        std::chrono::milliseconds(1000);  // least time between views for newcomers
    Duration joiner_fresh = std::chrono::milliseconds(3000);  // a JOIN is valid for that long
    Duration pause_after = std::chrono::milliseconds(3000);   // no quorum: say so
    Duration linger_status = std::chrono::milliseconds(300);  // repeat of the last word
    Duration alone_after = std::chrono::seconds(10);  // without a quorum, where goes_on_alone
    Duration alone_turn = std::chrono::seconds(2);    // more for each live member before this one
    Duration lease_term = std::chrono::seconds(3);    // for who grants it
    // The holder's is shorter by so much: clocks may differ by a tenth in speed.
    Duration lease_margin = std::chrono::milliseconds(300);
    Duration lease_every = std::chrono::milliseconds(500);  // renewal
    Watchdog::Timings watchdog;
  };

  struct Options {
    view::Member self;
    JobId job;
    std::vector<NodeId> candidates;  // acceptors of view 0, from the manifest; the same everywhere
    std::uint32_t wanted_nodes = 1;  // members are limited to this number
    std::uint32_t min_nodes = 1;     // fewer members: the job pauses
    bool witness_only = false;       // never a member: offers itself as a witness, and votes
    bool goes_on_alone = false;      // on_lost_quorum is "continue": see LostQuorum
    std::uint64_t total_steps = 0;
    collective::Tree tree = collective::Tree::of_slices(1);
    std::uint64_t element_count = 0;  // of a gradient
    collective::AddFn add;
    std::shared_ptr<const collective::WireForms> forms;  // null: exact
    std::shared_ptr<StepPlaces> places;                  // told of each step; may be null
    collective::Routing routing;                         // of the job's mode; no forms then
    std::uint64_t site = 0;                              // of this node, see StepTimes
    bool device_link = false;  // the driver can OpenGroup, and the job wants it
    // Also where the members are apart: the job and this node's owner trust the network between.
    bool link_between_machines = false;
    Digest fingerprint;             // compute fingerprint of this node
    Digest initial_state_digest;    // of the state before step 1
    std::uint64_t state_bytes = 0;  // of each state of the job: one of another size is refused
    std::uint32_t state_part_bytes = 256u << 10;
    std::uint64_t results_kept_bytes = std::uint64_t{1} << 30;  // for learners, while there are any
    Checkpoint checkpoint;                                      // newest durable one on this node
    // That is the job's result, and an earlier life of this node was through with the job: nothing
    // is left to do here but to give it to who lacks it.
    bool has_result = false;
    Bytes votes;  // the job's vote file of an earlier life; empty: none
    // By which this node signs its votes and knows the others' (any thread).
    std::shared_ptr<const view::Signer> signer;
    // What counts as a person's order, whoever tells of it (any thread); none: nothing does.
    view::MayOrder may_order;
    std::uint64_t seed = 0;  // of waiting times only
    Timings timings;
  };

  // Fails with invalid_argument (options), corrupted (vote file).
  static Result<JobCore> create(Options options);
  JobCore(JobCore&&) noexcept;
  JobCore& operator=(JobCore&&) noexcept;
  ~JobCore();

  // Call on_tick every 20 to 50 ms, and the rest when it happens.
  void on_start(Time now, Actions& out);
  void on_tick(Time now, Actions& out);
  void on_message(Time now, const NodeId& from, const JobMessage& message, Actions& out);
  void on_peer(Time now, const NodeId& peer, PeerHealth health, Actions& out);
  // A connection was (re)made, so what was in flight may be lost, or a dial was refused.
  void on_link(Time now, const NodeId& peer, LinkState state, Actions& out);
  void on_persisted(Time now, std::uint64_t token, Actions& out);
  // The data connection to a peer broke. One that does so again and again while nothing comes of it
  // carries no step, however well the peer is heard otherwise.
  void on_bulk_reset(Time now, const NodeId& peer, Actions& out);
  // A partial sum asked for by Compute, or a range of it. A whole one that an older Compute
  // asked for is kept, in case a plan wants it; a mere range for an older Compute is void.
  void on_partial(Time now, const PartialRange& range, Actions& out);
  // Of OpenGroup and of a carried step; see there. `trouble` empty: the group stands.
  void on_invite(Time now, const view::ViewName& view, Bytes invite, Actions& out);
  void on_group(Time now, const view::ViewName& view, const std::string& trouble, Actions& out);
  void on_sums_whole(Time now, std::uint64_t compute_id, const collective::ComputeTimes& times,
                     Actions& out);
  void on_carried(Time now, const Carried& carried, Actions& out);
  // state: block_digest_of() the bytes that ReadState would give after it.
  void on_applied(Time now, std::uint64_t step, const Digest& state, Actions& out);
  void on_state_read(Time now, std::uint64_t token, SharedBytes state, Actions& out);
  void on_state_installed(Time now, std::uint64_t step, Actions& out);
  // The answer to ReadSaved.
  void on_saved_read(Time now, std::uint64_t token, SharedBytes state, Actions& out);
  // A newer checkpoint is durable on this node.
  void set_checkpoint(const Checkpoint& checkpoint);
  // Those that retention has to leave on this node's disk, however many newer ones there are.
  std::vector<view::CheckpointName> kept() const;
  // The checkpoint of this name is damaged here, or gone: what this node holds now is
  // `newest_intact`, step 0 for none. Where its state was waited for, another view is asked for,
  // which counts what is really there.
  void on_checkpoint_lost(Time now, const view::CheckpointName& lost,
                          const Checkpoint& newest_intact, Actions& out);
  // The answer to GiveUpCheckpoints: what is left, step 0 for none.
  void on_given_up(Time now, const Checkpoint& newest_intact, Actions& out);
  // Nodes that may know the job: where JOIN and questions go when the members are unknown.
  void set_hints(std::vector<NodeId> nodes);
  // Nodes of the cluster that are up, whatever they do in this job: whom to ask to be a witness.
  void set_spares(std::vector<NodeId> nodes);
  // Asks the members to take this node in (also after request_leave). Members and candidates of
  // view 0 need not call it.
  void request_join(Time now, Actions& out);
  // Leaves after the step under way, or at once if the time left is less than two steps; Left says
  // that it is done, at the latest after `timeout`. kWhenOthersCan: the last holder of the state
  // goes on until somebody else holds it.
  void request_leave(Time now, Duration timeout, Actions& out);
  // This node can no longer take part, for a reason of its own: tells the others, so that they go
  // on at once. The core must not be fed any more.
  void give_up(Time now, const std::string& reason, Actions& out);

  // A person's order. The next view carries it out; ViewInstalled tells. Fails with
  // permission_denied (nobody's who may give it), wrong_state (a later one is known) and, the detail
  // saying what to do instead, invalid_argument: this node has no part in the job's last view, or
  // the order makes no sense now.
  //   stop        | after the step under way; the state is kept, and a last checkpoint wanted
  //   resume      | of a stopped job
  //   resume_from | from the checkpoint of order.step, though a later one was reported durable: for
  //               | when its holders are lost for good. Its caller has it audited first
  //   recover     | gives up on whoever does not answer: those who do go on as a new generation, and
  //               | all others yield when they meet it. May lose what only the others have
  //               | committed. Its caller has it audited first. Refused at a witness without a copy
  //               | of what is durable, unless it begins anew
  Result<void> take_order(Time now, const view::SignedOrder& order, Actions& out);
  // The answer to LostQuorum, once it is audited: likewise, but others that had the quorum go
  // before.
  void go_on_alone(Time now, Actions& out);

  const view::View& view() const;
  JobStatus status(Time now) const;
  std::uint64_t committed() const;                               // newest committed step; 0: none
  collective::DataFingerprint running_data_fingerprint() const;  // over steps 1..committed()
  // Of the state here; none if that belongs to no history of the view.
  std::optional<HistoryId> state_history() const;
  Digest state_digest() const;  // of the newest state that is in place
  bool gives_way() const;  // to another part of the job, as soon as GiveUpCheckpoints is answered
  const Checkpoint& checkpoint() const;  // the newest intact one on this node's disk

 private:
  struct State;
  explicit JobCore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpunode::job
