// The inside of JobCore: its parts, each a class of its own with its own state, and what connects
// them: the inputs (job_core.cpp), which part each is for (job_route.cpp), time (job_tick.cpp),
// view changes (job_views.cpp), forks (job_forks.cpp), proposals (job_proposals.cpp), orders
// (job_orders.cpp), what a decided view means here (job_install.cpp), and what changes the state on
// this node (job_commit.cpp).
#pragma once

#include <string>

#include "runtime/job/copies.hpp"
#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/donor.hpp"
#include "runtime/job/durability.hpp"
#include "runtime/job/ending.hpp"
#include "runtime/job/joiners.hpp"
#include "runtime/job/known_forks.hpp"
#include "runtime/job/learner.hpp"
#include "runtime/job/lease.hpp"
#include "runtime/job/leaver.hpp"
#include "runtime/job/loader.hpp"
#include "runtime/job/lost_members.hpp"
#include "runtime/job/orders.hpp"
#include "runtime/job/pause_reasons.hpp"
#include "runtime/job/stall_watch.hpp"
#include "runtime/job/step_runner.hpp"
#include "runtime/job/view_news.hpp"
#include "runtime/job/view_proposal.hpp"
#include "runtime/job/watchdog.hpp"
#include "runtime/job/witnesses.hpp"
#include "runtime/view/double_vote.hpp"

namespace gpunode::job {

struct JobCore::State {
  explicit State(Options chosen);
  view::ViewAgreement::Options agreement_of(const Options& chosen);

  // job_tick.cpp
  void tick(Actions& out);
  void watch_pause(Actions& out);
  void set_phase();
  Phase outside() const;
  JobStatus status() const;

  // job_route.cpp
  void route(const NodeId& from, const JobMessage& message, Actions& out);
  bool may_speak(const NodeId& from, const JobMessage& message) const;
  void route_state(const NodeId& from, const JobMessage& message, Actions& out);
  void route_in_view(const NodeId& from, const JobMessage& message, Actions& out);
  void on_join(const NodeId& from, const JobMessage& message, const JoinAsk& ask, Actions& out);
  void on_status(const NodeId& from, const HistoryId& history, const StepStatus& status,
                 Actions& out);
  void on_lease_ask(const NodeId& from, Boot boot, const LeaseAsk& ask, Actions& out);
  void on_lease_grant(const NodeId& from, const LeaseGrant& grant, Actions& out);
  void on_peer(const NodeId& node, PeerHealth health, Actions& out);
  void on_link(const NodeId& node, LinkState state, Actions& out);
  void on_bulk_reset(const NodeId& node, Actions& out);
  bool is_certain() const;
  void answer(const NodeId& from, Actions& out) const;
  void lease_tick(Actions& out);
  void note_durable(Actions& out);
  void leave_tick(Actions& out);
  void watch_work(Actions& out);
  void work_came_back(Actions& out);
  void serve_learners(Actions& out);

  // job_views.cpp: when another view is wanted, and what this node tells for it
  view::Standing standing() const;
  void change_view(const std::string& reason, Actions& out);
  void split(const std::optional<view::SignedOrder>& order, Actions& out);
  void watch_members(Actions& out);
  void watch_silence(Actions& out);
  void on_commit_boundary(Actions& out);
  void on_hint(const NodeId& from, const FreezeHint& hint, Actions& out);
  void gossip(Actions& out);
  bool fits_job(const view::View& view) const;
  bool fits_job(const view::VoteMessage& message) const;
  void on_notice(const NodeId& from, const ViewNotice& notice, Actions& out);
  void refuse(const NodeId& from, const view::View& next, const char* why, Actions& out);
  bool is_astray() const;
  void meet(const NodeId& from, const view::View& theirs, Actions& out);
  void carry_out(view::ViewAgreement::Effects& effects, Actions& out);

  // job_proposals.cpp: what the next view is, and whether another's proposal is that
  using Promisers = std::vector<view::Promiser>;
  Result<view::View> compose(const Promisers& promisers, const view::Hearsay& hearsay,
                             bool forced) const;
  view::Hearsay hearsay(const Promisers& promisers) const;
  bool follows(const Promisers& promisers, const view::Hearsay& hearsay, const view::View& next,
               bool fresh) const;
  Result<view::View> propose(ProposalRules rules, Promisers heard,
                             const view::Hearsay& hearsay) const;
  Result<void> nobody_may_answer(const Promisers& heard, const view::View& next) const;

  // job_forks.cpp: two views that were decided beside each other
  bool on_fork(const NodeId& from, const view::ViewChain& told, Actions& out);
  bool parts_from(const ViewAsk& ask) const;
  void show_evidence(Actions& out) const;
  void give_way(const view::Fork& fork, const view::ViewChain& told, Actions& out);
  void on_given_up(const Checkpoint& newest_intact, Actions& out);
  std::vector<NodeId> put_out() const;
  bool may_put_out(const std::vector<NodeId>& nodes, bool fresh) const;

  // job_orders.cpp: what people order
  Result<void> take_order(const view::SignedOrder& order, Actions& out);
  Result<void> recover(const view::SignedOrder& order, Actions& out);
  void watch_orders(Actions& out);
  bool counts(const view::SignedOrder& order) const;

  // job_install.cpp: what a decided view means for this node
  // `yields`: it is of the other side of a fork.
  void install(view::ViewChain chain, Actions& out, bool yields = false);
  void tell_parts(const view::View& before, bool turned, Actions& out);
  void leave_history(const view::View& before, Actions& out);
  void enter(const view::View& before, std::optional<collective::AllReduce> held, Time wanted_since,
             Actions& out);
  bool holds_base() const;
  void settle(Actions& out);

  // job_commit.cpp: what changes the state on this node
  void maybe_begin(Actions& out);
  void on_step(const NodeId& from, const StepMessage& message, Actions& out);
  void on_partial(const PartialRange& range, Actions& out);
  void advance(Actions& out);
  void commit(const collective::AllReduce& done, std::vector<NodeId> computed_by, bool in_view,
              Actions& out);
  void follow(Actions& out);
  void load_what_came(Actions& out);
  void on_applied(std::uint64_t step, const Digest& digest, Actions& out);
  void on_checkpoint(const Checkpoint& written);
  void on_installed(std::uint64_t step, Actions& out);

  JobContext job;
  Watchdog watchdog{job.options.timings.watchdog};
  Joiners joiners{job};
  Ending ending{job, joiners};
  Donor donor{job, joiners};
  StepRunner steps{job, watchdog};
  Loader loader{job, watchdog};
  Learner learner{job};
  Leaver leaver{job};
  Witnesses witnesses{job};
  Lease lease{job};
  Durability durability{job};
  Copies copies{job, durability};
  Orders orders{job};
  StallWatch stalls{job};
  LostMembers lost;
  ViewNews news;

  Phase phase = Phase::outsider;
  Time phase_since{};
  PauseReasons paused_for;
  std::string end_told;  // why the view is to end, as last said
  KnownForks forks;
  std::optional<view::SignedOrder> split_order;  // of the split that is under way, if ordered
  Time committed_at{};                           // in this view
};

}  // namespace gpunode::job
