// The inside of JobCore, split by concern over sources: job_core.cpp (inputs and routing),
// job_steps.cpp (exchange and commit), job_views.cpp (view changes), job_admission.cpp (what
// members do for learners), job_learner.cpp (what a learner does), job_sync.cpp (state transfer in
// both directions), job_orders.cpp (what people order), job_leave.cpp (leaving politely),
// job_result.cpp (the end for who was away), job_stalls.cpp (whom a step waits for),
// job_witness.cpp (spare nodes that vote), job_lease.cpp (leases of members that are no quorum) and
// job_copies.cpp (their checkpoints on spare nodes).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/collective/float_pool.hpp"
#include "runtime/collective/paced_plan.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/result_fetch.hpp"
#include "runtime/job/result_log.hpp"
#include "runtime/job/state_transfer.hpp"
#include "runtime/job/view_proposal.hpp"
#include "runtime/job/watchdog.hpp"

namespace gpunode::job {

struct JobCore::State {
  explicit State(Options chosen);

  struct Peer {
    PeerState state = PeerState::alive;
    Time state_at{};
    Time heard{};
    Time doubted_until{};               // another member said that it cannot reach it
    Time notified{};                    // when a VIEW was last sent to it
    Time asked{};                       // when a VIEW was last asked of it
    view::ViewName view;                // newest that it is known to have installed
    std::optional<Time> awaited_since;  // its bytes or its DONE are missing since then
    bool unheard = false;               // was waited for in vain: the link to it is broken
    std::optional<Time> vain_since;     // the data connection broke, and no bytes of a step since
    Time cut_until{};                   // no bytes of a step get through
    bool finished = false;              // said that it has committed the last step
  };
  struct Joiner {
    Boot boot = 0;
    Time asked{};
    Digest fingerprint;
    std::uint64_t received_bytes = 0;
    Time progress{};
    Time barred_until{};
    Time ready_at{};  // its last word that it is ready, if any
    bool hears_us = false;
    std::uint64_t step = 0;  // of its state
    view::CheckpointName checkpoint;
    Digest checkpoint_digest;
  };
  // What came before its time.
  struct EarlyMessages {
    std::vector<std::pair<NodeId, StepMessage>> list;
    std::uint64_t bytes = 0;
    void keep(const NodeId& from, const StepMessage& message, std::uint64_t most_bytes);
  };
  // A partial sum of the step under way, or what is final of it so far.
  struct Partial {
    collective::SharedFloats sum;
    collective::DataFingerprint data_fingerprint;
    std::uint64_t final_elements = 0;
  };

  // job_core.cpp: inputs and routing
  void tick(Time now, Actions& out);
  void route(Time now, const NodeId& from, const JobMessage& message, Actions& out);
  void send(const NodeId& to, JobBody body, Actions& out, bool bulk = false) const;
  void report(std::string text, Actions& out) const;
  void on_learning(Time now, const NodeId& from, const JobBody& body, Actions& out);
  void note_heard(Time now, const NodeId& from);
  void bulk_reset(Time now, const NodeId& peer, Actions& out);
  void peer_changed(Time now, const NodeId& peer, PeerState state, Actions& out);
  void set_phase(Time now);
  JobStatus status(Time now) const;

  // job_steps.cpp: exchange and commit
  bool can_exchange() const;
  void maybe_begin(Time now, Actions& out);
  void tell_places();
  void ask_compute(Actions& out);
  std::uint64_t most_early_bytes() const;
  void keep_ahead(const NodeId& from, const JobMessage& message);
  void on_step(Time now, const NodeId& from, const StepMessage& message, Actions& out);
  void answer_need(const NodeId& from, Actions& out) const;
  void on_partial(Time now, const PartialRange& range, Actions& out);
  bool is_whole(const Partial& partial) const {
    return partial.final_elements == options.element_count;
  }
  void on_applied(Time now, std::uint64_t step, const Digest& digest, Actions& out);
  void update_speculatively(Actions& out);
  void advance(Time now, Actions& out);
  std::vector<NodeId> computing(const view::View& view) const;  // by slice of the step under way
  void commit(Time now, const collective::AllReduce& done, std::vector<NodeId> computed_by,
              bool in_view, Actions& out);
  void next_plan(const std::vector<collective::StepTimes>& told);
  void follow_places(std::vector<std::uint64_t> found);
  Digest digest_of_plan() const;
  void send_step(std::uint64_t step, const std::vector<collective::SendTo>& sends, Actions& out);
  void on_status(Time now, const NodeId& from, const StepStatus& status, Actions& out);
  void finish_tick(Time now, Actions& out);
  void release_gradients(Time now);

  // job_stalls.cpp: whom a step waits for, told to people
  std::optional<Stall> longest_wait(Time now) const;
  void watch_stall(Time now, Actions& out);
  void end_stall(Time now, const std::string& how, Actions& out);
  void note_step_time(Time now);

  // job_stalls.cpp too: work of this node that hangs
  void watch_work(Time now, Actions& out);
  void work_came_back(Actions& out);

  // job_views.cpp: view changes and admission
  view::Standing standing() const;
  Result<view::View> compose(const std::vector<view::ViewAgreement::Promiser>& promisers,
                             bool forced) const;
  bool suspected(const NodeId& node) const;
  bool gone(const NodeId& node) const;
  bool reached(const NodeId& node) const;  // as far as this node knows
  void change_view(Time now, const std::string& reason, Actions& out);
  void watch_members(Time now, Actions& out);
  void on_commit_boundary(Time now, Actions& out);
  void on_hint(Time now, const NodeId& from, const FreezeHint& hint, Actions& out);
  void ask_tick(Time now, Actions& out);
  void gossip_tick(Time now, Actions& out);
  bool fits_job(const view::View& view) const;
  bool fits_job(const view::VoteMessage& message) const;
  void on_notice(Time now, const NodeId& from, const ViewNotice& notice, Actions& out);
  void meet(Time now, const NodeId& from, const view::View& theirs, Actions& out);
  void leave_history(const view::View& before, Actions& out);
  void install(Time now, const view::DecidedView& decided, Actions& out);
  void follow_plan_of(const view::View& view);
  bool holds_base() const;
  void settle(Time now, Actions& out);
  void tell_view(Time now, const NodeId& to, Actions& out, bool always = false);
  void carry_out(Time now, view::ViewAgreement::Effects& effects, Actions& out);
  std::vector<NodeId> peers_of(const view::View& view) const;

  // job_orders.cpp: what people order
  Result<void> has_part() const;
  Result<void> stop(Time now, Actions& out);
  Result<void> resume(Time now, Actions& out);
  Result<void> recover(Time now, Actions& out);
  void split(Time now, view::Turn::Kind kind, Actions& out);
  Result<void> go_back(Time now, std::uint64_t step, Actions& out);
  void take_wish(Time now, view::Wish wanted, Actions& out);
  void watch_wish(Time now, Actions& out);
  void watch_lost_quorum(Time now, Actions& out);
  void tell_stopped(Actions& out);
  // job_admission.cpp: what members do for learners
  void on_join(Time now, const NodeId& from, const JobMessage& message, const JoinAsk& ask,
               Actions& out);
  bool is_fresh(const Joiner& joiner) const;
  bool reaches(const NodeId& node, const Joiner& joiner) const;
  std::vector<Joining> learners() const;
  bool may_learn(const NodeId& node) const;
  void on_learner(Time now, const NodeId& from, const JobBody& body, Actions& out);
  void keep_result(std::uint64_t step, const collective::SharedFloats& result, const Digest& digest,
                   const collective::DataFingerprint& data_fingerprint);
  Duration pause_of_learners() const;
  void serve_learners(Time now, Actions& out);

  // job_learner.cpp: what a learner does
  bool is_of_history() const;
  bool is_late() const;
  bool learns() const;
  bool is_ready(Time now) const;
  std::uint64_t learned_bytes() const;
  void join_tick(Time now, Actions& out);
  void on_source(Time now, const NodeId& from, const StepStatus& status, Actions& out);
  void follow_results();
  void learn_tick(Time now, Actions& out);
  void fetch_some_state(Time now, Actions& out);
  std::vector<NodeId> state_sources() const;
  void begin_fetch(std::uint64_t step);
  void on_offer(Time now, const NodeId& from, const StateMeta& meta, Actions& out);
  void on_result(Time now, const NodeId& from, const ResultPart& part, Actions& out);
  void follow(Time now, Actions& out);
  void carry_out(ResultFetch::Effects& effects, Actions& out) const;
  void drop_fetch();
  void drop_results();
  void follow_view(const view::View& before);
  void lose_learned(const NodeId& node);
  void drop_source(const NodeId& node);
  bool outlives_views(const JobMessage& message) const;
  void tell_learned(Time now, Actions& out);

  // job_result.cpp: the end of the job for who was no member at it
  bool holds_result() const;
  bool is_about_result(const NodeId& from, const JobBody& body) const;
  void end_outside(Time now, Actions& out);
  void on_foreign_status(Time now, const NodeId& from, const StepStatus& status, Actions& out);
  bool ended_before(const NodeId& from, const StepStatus& status) const;
  void end_with_result_of(Time now, const NodeId& from, const std::string& why, Actions& out);
  void watch_result_sources(Time now, Actions& out);
  void result_tick(Time now, Actions& out);
  void finish_elsewhere(std::string how, Actions& out);

  // job_leave.cpp: leaving politely
  void begin_leave(Time now, Duration timeout, Actions& out);
  bool must_hurry(Time now) const;
  bool wants_out(Time now) const;
  void leave_tick(Time now, Actions& out);
  void save_state(Actions& out);
  bool awaits_copies(Time now);
  bool others_know(Time now, Actions& out);
  void tell_left(const std::string& why, Actions& out);

  // job_witness.cpp: spare nodes that vote
  void on_witness_offer(Time now, const NodeId& from, const WitnessOffer& offer, Actions& out);
  bool leaves(const NodeId& node) const;
  bool takes_part(const NodeId& witness) const;
  void tell_that_it_leaves(Actions& out) const;
  bool offers_to_witness() const;
  std::vector<NodeId> witness_candidates() const;
  std::size_t voting_members() const;
  std::size_t spare_count() const;
  bool wants_witnesses(Time now);
  void witness_tick(Time now, Actions& out);

  // job_lease.cpp: leases where the members are no quorum
  bool needs_lease() const { return view::needs_lease(agreement.view()); }
  bool holds_lease(Time now) const;
  bool may_report(Time now) const;
  void lease_tick(Time now, Actions& out);
  void on_lease_ask(Time now, const NodeId& from, const JobMessage& message, const LeaseAsk& ask,
                    Actions& out);
  void on_lease_grant(Time now, const NodeId& from, const LeaseGrant& grant, Actions& out);
  Time lease_end(Time now) const;
  std::size_t copies_wanted(Time now);
  std::vector<NodeId> holders_of(const view::CheckpointName& name) const;
  void watch_durable(Time now, Actions& out);
  void on_noted(view::Floor floor, Actions& out);
  Duration lease_granted(Time now) const;  // what is left of it
  void end_leases();

  // job_copies.cpp: checkpoints of small jobs on their witnesses
  void copies_tick(Time now, Actions& out);
  void on_copy_offer(Time now, const LeaseAsk& ask, Actions& out);
  bool on_copy(Time now, const NodeId& from, const JobBody& body, Actions& out);
  bool give_copy(Time now, const NodeId& from, const JobBody& body, Actions& out);
  void carry_out_copy(StateSource::Effects& effects, Actions& out);
  void carry_out_copy(Time now, StateFetch::Effects& effects, Actions& out);
  void end_copies(bool void_history);

  // job_sync.cpp: state transfer
  void start_fetch(Time now, Actions& out);
  void carry_out(Time now, StateFetch::Effects& effects, Actions& out);
  void tick_fetch(Time now, Actions& out);
  void carry_out(StateSource::Effects& effects, Actions& out);
  void reply(std::vector<StateSource::Reply>& replies, Actions& out);
  void offer_state(Time now, Actions& out);
  void on_installed(Time now, std::uint64_t step, Actions& out);

  Options options;
  view::ViewAgreement agreement;
  view::DecidedView decided;  // how the current view was decided, for VIEW
  Time now{};                 // of the input being handled
  Time phase_since{};
  Time installed_at{};
  Phase phase = Phase::outsider;
  bool member = false;       // this life of this node is in the current view
  bool state_ready = false;  // and holds its state: at base_step or later in this view
  bool wants_in = false;
  bool leaving = false;
  view::Wish wish = view::Wish::none;  // asked of this node, not yet carried out
  std::uint64_t resume_from = 0;       // of Wish::resume_from
  std::uint64_t rival = 0;             // mark of another part of the job that was met
  view::Turn::Kind split_kind = view::Turn::Kind::split;  // of the split that is under way
  Time wished_at{};
  bool stop_told = false;
  Time alone_told{};             // when LostQuorum was last said
  std::optional<Time> leave_by;  // when it leaves at the latest
  Time leave_began{};            // when it was asked to leave
  Time save_from{};              // when the last holder waits for others no longer
  std::optional<Time> leave_tried;
  Time leave_asked{};
  bool owes_view = false;  // it voted on the view, which the others may not know yet
  bool leave_told = false;
  bool left_told = false;
  bool holding = false;                 // commits nothing more: it is about to leave
  std::optional<std::uint64_t> saving;  // step of the checkpoint that is waited for
  std::optional<Time> saved_at;         // when it was durable here
  bool pause_told = false;
  std::string end_told;  // why the view is to end, as last said
  bool finish_told = false;
  bool gradients_released = false;
  bool through = false;             // with a result of before this view: computes nothing more
  bool result_wanted = false;       // the job is finished, and its result on the way here
  std::set<NodeId> result_sources;  // who have finished it, but not as members of this view
  Time result_progress{};
  std::uint64_t result_bytes = 0;

  // Where the state is.
  std::uint64_t committed = 0;
  std::uint64_t applied = 0;  // committed, or less while Apply is under way
  HistoryId history;          // of the state here
  Digest state_digest;        // after `applied`
  Digest result_digest;       // of the sum of step `committed`; zero: unknown
  collective::DataFingerprint running;

  std::shared_ptr<collective::FloatPool> results;
  std::shared_ptr<collective::ChunkForm> form;  // in which chunks travel

  // The step under way, and the one before it, which still answers late peers.
  std::optional<collective::AllReduce> exchange;
  std::uint64_t exchange_step = 0;
  std::uint64_t told_held = 0;  // step whose fault point was passed
  std::optional<collective::AllReduce> previous_exchange;
  Digest plan_digest, previous_plan_digest;          // of slice plan and route
  std::map<collective::TreeNode, Partial> partials;  // of step partial_step
  std::uint64_t partial_step = 0;
  std::uint64_t order = 0;  // of the last Compute
  collective::ComputeTimes compute_times;
  // Derived by every member alike from the view and the DONEs since.
  collective::SlicePlan plan;  // of step committed + 1
  collective::Paces paces;
  std::vector<std::uint64_t> places;  // of the members, as they told; 0 until then
  std::shared_ptr<const collective::SumRoute> sum_route;
  collective::AfterTimes after;                      // of step `committed`, as far as it is known
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // of chunks, since that commit
  Time held_at{}, apply_asked{};
  bool discard_kept = false;
  Time step_began{};
  Duration step_time{};  // of the last one committed here
  EarlyMessages early;   // for a step that is not begun here yet
  EarlyMessages ahead;   // of a view that is not installed here yet
  view::ViewName ahead_view;

  std::map<NodeId, Peer> peers;
  std::map<NodeId, Joiner> joiners;
  Watchdog watchdog{options.timings.watchdog};
  bool work_lost = false;  // it hangs: this node takes no part until it comes back
  std::optional<Stall> stall_told;
  Time stalled_since{};
  Duration usual_step{};  // smoothed, commit to commit
  std::optional<Time> last_commit;

  std::vector<NodeId> hints;
  std::vector<NodeId> spares;
  std::map<NodeId, Time> witness_offers;  // when each last offered itself
  std::map<NodeId, Time> recruited;       // when each was last asked to
  std::map<NodeId, Time> left;            // when each said that it leaves, or was left out
  std::optional<Time> witnesses_lacked;
  Time witness_offered{};
  Time join_asked{};
  Time view_asked{};
  Time gossiped{};
  Time committed_at{};  // in this view
  Time status_sent{};
  Time done_at{};

  // What learners get from here.
  StateSource source;
  ResultLog log;
  std::deque<StateSource::Reply> queued;  // until this node's own sums are through
  Time served{};                          // when a queued part left last

  // This node as a learner.
  std::optional<ResultFetch> following;
  bool cut_off = false;              // the results that it lacks are gone: it needs a state
  std::uint64_t told_committed = 0;  // newest committed step of any member
  std::uint64_t told_from = 0;       // the first step whose result a member keeps
  Time told_at{};
  Time learn_asked{};
  Time learn_applied{};
  Duration learn_pace{};  // time of one result
  Time fetch_asked{};
  std::uint64_t fetch_margin = 0;  // steps ahead that a state is asked for
  std::optional<Time> learn_began;
  Duration learned_time{};
  std::uint64_t learned_before = 0;  // bytes of fetches that are over
  std::uint64_t learned_results = 0;
  std::optional<StateFetch> fetch;
  HistoryId fetch_history;              // of `fetch` and `installing`
  std::optional<StateMeta> installing;  // handed to the driver, not yet confirmed
  std::optional<Checkpoint> restoring;  // asked of the driver, not yet confirmed

  // Leases. As a member: who granted what was asked for when, and which checkpoint it has.
  std::map<NodeId, LeaseGrant> grants;
  Time lease_asked{};
  Time lease_until{};
  std::uint64_t reported = 0;  // see JobStatus
  view::Floor durable;
  std::map<NodeId, LeaseGrant> told_copies;  // what each other node said last of its checkpoint
  std::optional<Time> lone_since;            // spare nodes are there, and none holds copies yet
  Time granted_until{};                      // as an acceptor, by its own clock

  // Copies of checkpoints. As a member: what is offered; as a witness: what is on its way.
  StateSource copies;
  Checkpoint offered;
  std::optional<StateFetch> copy_fetch;
  view::CheckpointName copy_name;
  Time copy_progress{};
  std::uint64_t copy_bytes = 0;
  std::optional<Time> copy_written;  // when the driver was asked to write it
};

}  // namespace gpunode::job
