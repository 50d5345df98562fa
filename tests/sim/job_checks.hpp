// The invariants of the job protocol, asserted after every action of every simulated node. It sees
// what a god would see: all views, commits and messages of all nodes and lives. The rules that it
// holds them to are those of protocol_rules.hpp, never the product's own.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/job/job_core.hpp"
#include "tests/sim/history.hpp"
#include "tests/sim/job_model.hpp"
#include "tests/sim/job_truth.hpp"

namespace gpunode::sim {

class JobChecks {
 public:
  struct Rules {
    std::uint32_t min_nodes = 1;
    // Whether it holds in all kinds of views, not only where members need a lease, that no rollback
    // goes behind what a quorum's disks hold, and that nobody commits what a rollback has undone.
    bool only_effects = false;  // count only what harms the result or the history
    bool none = false;          // a node votes twice: two views may have one name
    bool inexact = false;       // sums may differ from those of one node alone, not among members
  };
  JobChecks(const JobModel& model, const view::View& first_view, Rules rules);

  // Whose seals say nothing of its own disk: it signs what it likes.
  void distrust(const NodeId& liar) { liar_ = liar; }

  void on_send(const view::Member& node, const job::JobMessage& message,
               const Bytes& durable_votes);
  void on_view(const view::Member& node, const view::View& view, job::Role role);
  void on_speculative_update(const view::Member& node, const job::SpeculativeUpdate& part);
  void on_apply(const view::Member& node, const job::Apply& apply);
  void on_committed(const view::Member& node, const job::Committed& commit, job::Phase phase);
  // What a person is told who looks at the job on this node now.
  void on_report(const view::Member& node, const job::JobStatus& status);
  // `in`: the history in which it was asked for. From a checkpoint, or from a member.
  void on_install(const view::Member& node, const HistoryId& in, std::uint64_t step,
                  const Digest& digest, bool from_checkpoint);
  void on_installed(const view::Member& node);
  // The node's state after a step that it applied.
  void on_state(const view::Member& node, std::uint64_t step, const Digest& digest);
  // A learner follows a step that the members committed.
  void on_followed(const view::Member& node, const job::Apply& apply);
  // The history in which a node is now, and the salt of what it computes there.
  bool is_waited_for(const view::Member& node, const view::View& in,
                     const view::View& undone) const;
  HistoryId history(const view::Member& node) const;
  std::uint64_t salt(const HistoryId& history, std::uint64_t step) const {
    return histories_.salt(history, step);
  }
  // A state that some history ends with.
  bool is_an_end(const Digest& state) { return histories_.is_an_end(state); }
  // A node's disk holds a checkpoint that can be read, or no longer holds it.
  void on_checkpoint(const view::Member& node, const job::Checkpoint& checkpoint);
  void on_checkpoint_lost(const NodeId& node);
  // A person lets the job go back to that step, whatever was reported durable or is committed yet
  // by who does not answer.
  void on_ordered_back(std::uint64_t step) { ordered_back_.insert(step); }
  void on_order(const view::SignedOrder& order) { orders_.push_back(order); }
  // Named by the newest view of any history.
  bool is_needed(const NodeId& node) const;
  void on_crash(const view::Member& node);
  // While it stood still: a lease that the node has by it lasts longer than those who granted it
  // know of. No protocol that goes by clocks could tell.
  void on_clock_stopped(const view::Member& node) { clock_stopped_.insert(node); }
  void on_restart(const view::Member& node, const view::Votes& votes);
  // A node writes these votes; they are on its disk for good.
  void on_persist(const view::Member& node, const Bytes& votes);
  void on_durable(const NodeId& node, const Bytes& votes);
  // What a node may have answered by before a crash, and what its next life reads from its disk.
  void on_reread(const Bytes& answered, const Bytes& read);
  // A proposer asks for promises; `hears`: peers that it reached both ways a moment ago.
  void on_prepare(const view::Member& node, const ViewName& name, const std::vector<NodeId>& hears);

  void breach(std::string text) { fail(std::move(text)); }

  const std::vector<std::string>& failures() const { return failures_; }
  std::uint64_t highest_commit() const;
  std::uint64_t commits() const { return commits_; }
  std::uint64_t plans() const {  // different ones that were followed
    std::set<Digest> kinds;
    for (const auto& [step, plan] : plans_) kinds.insert(plan);
    return kinds.size();
  }
  std::uint64_t views() const { return decided_.size() - 1; }
  std::uint64_t rollbacks() const { return rollbacks_; }
  std::uint64_t generations() const { return generations_; }
  std::uint64_t stops() const { return stops_; }
  std::uint64_t speculated() const {
    return speculated_;
  }  // steps applied that were speculated whole

 private:
  struct Place {
    ViewName view;
    job::Role role = job::Role::outsider;
    bool syncing = false;
    std::uint64_t committed = 0;
  };
  struct State {
    std::uint64_t step = 0;
    Digest digest;
  };
  void fail(std::string text);
  void check_speculation(const view::Member& node, const job::Apply& apply);
  void check_step(const view::Member& node, const job::JobMessage& message,
                  const job::StepMessage& step);
  void check_vote(const view::Member& node, const job::JobMessage& message, const job::Vote& vote,
                  const Bytes& durable_votes);
  void check_decided(const view::View& view, const std::vector<NodeId>& by);
  void record(const view::View& view);
  void check_rollback(const view::View& before, const view::View& view);
  bool has_result(const view::Member& node) const;
  void check_newcomers(const view::View& before, const view::View& view);
  void check_order(const view::View& before, const view::View& view);
  const view::View* decided(const ViewName& name) const;
  const view::View* before(const view::View& view) const;
  // The views that followed on this one in turn, up to a split; `undone`: a rollback lies
  // between.
  struct Later {
    const view::View* view = nullptr;
    const view::View* undone = nullptr;  // the first view on the way that a rollback followed
  };
  std::vector<Later> later_than(const ViewName& name) const;
  bool is_believed(const NodeId& node) const;  // that it has a copy
  // The newest step of a durable checkpoint that binds a view which follows on this history.
  // Of what belongs to the history up to `last`, where another one left it.
  std::uint64_t floor_of(const HistoryId& history, std::uint64_t last = ~std::uint64_t{0}) const;
  void agree(const HistoryId& history, std::uint64_t step, const char* what, const Digest& digest);
  std::uint64_t newest_commit_in(const HistoryId& history) const;

  const JobModel& model_;
  Rules rules_;
  const Truth& truth_;
  Histories histories_;
  struct Parent {
    HistoryId history;
    Turn turn;
    std::uint64_t left_at = 0;  // step
  };
  std::map<HistoryId, Parent> parents_;
  // In inexact modes: what the first member had.
  std::map<std::pair<HistoryId, std::pair<std::uint64_t, std::string>>, Digest> agreed_;
  std::set<std::pair<std::uint64_t, Digest>> states_;  // after a step, in any history
  std::vector<std::string> failures_;
  std::map<ViewName, view::View> decided_;
  std::map<Digest, ViewName> by_digest_;
  std::map<Digest, std::vector<ViewName>> after_;  // digest of a view -> those that follow on it
  std::map<Digest, std::set<NodeId>> voted_for_;   // digest of a view -> on whose disk its vote is
  std::optional<NodeId> liar_;
  std::map<view::Member, Place> places_;
  std::map<view::Member, HistoryId> applying_;  // in which the step under Apply was committed
  std::map<view::Member, State> state_at_;      // the newest state of each life
  struct Speculation {
    std::uint64_t step = 0;
    collective::SharedFloats result;
    std::vector<std::optional<float>> values;
  };
  std::map<view::Member, Speculation> speculations_;
  // A promise binds all later lives of its node.
  std::set<std::pair<NodeId, ViewName>> promised_;
  std::set<std::pair<NodeId, ViewName>> promised_without_state_;  // still on its way here
  // view, step -> node -> digest of its DONE
  std::map<std::pair<ViewName, std::uint64_t>, std::map<NodeId, Digest>> done_;
  std::map<ViewName, std::uint64_t> newest_commit_;  // view -> newest step committed in it
  // view, step -> digest of the slice plan that its members follow
  std::map<std::pair<ViewName, std::uint64_t>, Digest> plans_;
  std::map<HistoryId, std::uint64_t> committed_in_;       // newest commit
  std::map<view::Member, std::uint64_t> reported_;        // step that each life told last
  std::map<HistoryId, std::set<std::uint64_t>> durable_;  // steps that were told as durable
  struct Copy {
    HistoryId history;
    std::uint64_t step = 0;
  };
  std::set<std::uint64_t> ordered_back_;
  std::vector<view::SignedOrder> orders_;  // that a person gave
  std::set<NodeId> asking_;                // to come in, in its latest life
  std::map<NodeId, Copy> copies_;          // the checkpoint that each disk holds
  std::uint64_t copies_lost_ = 0;          // to disks that broke
  std::set<view::Member> clock_stopped_;   // in the view that the node is in
  std::map<Digest, std::pair<HistoryId, std::uint64_t>> known_states_;  // by digest
  std::uint64_t commits_ = 0;
  std::uint64_t rollbacks_ = 0;
  std::uint64_t generations_ = 0;
  std::uint64_t stops_ = 0;
  std::uint64_t speculated_ = 0;
};

}  // namespace gpunode::sim
