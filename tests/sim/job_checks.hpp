// The invariants of the job protocol, asserted after every action of every simulated node. It sees
// what a god would see: all views, commits and messages of all nodes and lives.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/job/job_core.hpp"
#include "tests/sim/job_model.hpp"

namespace gpunode::sim {

class JobChecks {
 public:
  struct Rules {
    std::uint32_t min_nodes = 1;
    bool only_effects = false;  // count only what harms the result or the lineage
    bool inexact = false;       // sums may differ from those of one node alone, not among members
  };
  JobChecks(const JobModel& model, const view::View& first_view, Rules rules);

  void on_send(const view::Member& node, const job::JobMessage& message,
               const Bytes& durable_votes);
  void on_view(const view::Member& node, const view::View& view, job::Role role);
  void on_foresee(const view::Member& node, const job::Foresee& part);
  void on_apply(const view::Member& node, const job::Apply& apply);
  void on_committed(const view::Member& node, const job::Committed& commit, job::Phase phase);
  // What a person is told who looks at the job on this node now.
  void on_report(const view::Member& node, const job::JobStatus& status);
  void on_install(const view::Member& node, std::uint64_t step, const Digest& digest);
  void on_installed(const view::Member& node);
  // The node's state after a step that it applied.
  void on_state(const view::Member& node, std::uint64_t step, const Digest& digest);
  // A learner follows a step that the members committed.
  void on_followed(const view::Member& node, const job::Apply& apply, std::uint32_t rollbacks);
  // Named by the newest view of any lineage.
  bool is_needed(const NodeId& node) const;
  void on_crash(const view::Member& node);
  void on_restart(const view::Member& node, const view::Votes& votes);
  // What a node may have answered by before a crash, and what its next life reads from its disk.
  void on_reread(const Bytes& answered, const Bytes& read);
  // A proposer asks for promises; `hears`: peers that it reached both ways a moment ago.
  void on_prepare(const view::Member& node, const view::ViewOrder& order,
                  const std::vector<NodeId>& hears);

  void breach(std::string text) { fail(std::move(text)); }

  const std::vector<std::string>& failures() const { return failures_; }
  std::uint64_t highest_commit() const { return highest_commit_; }
  std::uint64_t commits() const { return commits_; }
  std::uint64_t plans() const { return plan_kinds_.size(); }  // different ones that were followed
  std::uint64_t views() const { return decided_.size() - 1; }
  std::uint64_t rollbacks() const { return rollbacks_; }
  std::uint64_t generations() const { return generations_; }
  std::uint64_t stops() const { return stops_; }
  std::uint64_t foreseen() const { return foreseen_; }  // steps applied that were foreseen whole

 private:
  struct Place {
    view::ViewOrder order;
    job::Role role = job::Role::outsider;
    bool syncing = false;
    std::uint64_t committed = 0;
  };
  void fail(std::string text);
  void check_foreseen(const view::Member& node, const job::Apply& apply);
  void record(const view::View& view);
  void check_newcomers(const view::View& before, const view::View& view);
  const view::View* undone_by(const view::ViewOrder& order) const;
  const view::View* decided(const view::ViewOrder& order) const;
  const view::View* before(const view::View& view) const;

  // Steps may be redone from an earlier state by another generation, or after a rollback.
  // Generation, the recovery that began it, rollbacks.
  using Lineage = std::array<std::uint64_t, 3>;
  Lineage lineage_of(const view::Member& node) const;
  void agree(const Lineage& lineage, std::uint64_t step, const char* what, const Digest& digest);

  const JobModel& model_;
  Rules rules_;
  std::map<std::pair<Lineage, std::pair<std::uint64_t, std::string>>, Digest> agreed_;
  std::set<std::pair<std::uint64_t, Digest>> states_;  // after a step, in any lineage
  const Truth& truth_;
  std::vector<std::string> failures_;
  std::map<view::ViewOrder, view::View> decided_;
  std::map<Digest, view::ViewOrder> by_digest_;
  std::map<view::Member, Place> places_;
  std::map<view::Member, Lineage> applying_;        // in which the step under Apply was committed
  std::map<view::Member, std::uint64_t> state_at_;  // step of the newest state of each life
  struct Foreseen {
    std::uint64_t step = 0;
    collective::SharedFloats result;
    std::vector<std::optional<float>> values;
  };
  std::map<view::Member, Foreseen> foresees_;
  std::set<std::pair<view::Member, view::ViewOrder>> promised_;  // node, view
  // view, step -> node -> digest of its DONE
  std::map<std::pair<view::ViewOrder, std::uint64_t>, std::map<NodeId, Digest>> done_;
  std::map<view::ViewOrder, std::uint64_t> newest_commit_;  // view -> newest step committed in it
  // view, step -> digest of the slice plan that its members follow
  std::map<std::pair<view::ViewOrder, std::uint64_t>, Digest> plans_;
  std::set<Digest> plan_kinds_;
  std::map<std::uint32_t, std::uint64_t> committed_in_;  // rollback count -> newest commit
  std::map<view::Member, std::uint64_t> reported_;       // step that each life told last
  std::map<std::pair<std::uint32_t, std::uint64_t>, view::CheckpointName>
      durable_;  // generation, recovery -> newest checkpoint that was called durable
  std::uint64_t highest_commit_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t rollbacks_ = 0;
  std::uint64_t generations_ = 0;
  std::uint64_t stops_ = 0;
  std::uint64_t foreseen_ = 0;
};

}  // namespace gpunode::sim
