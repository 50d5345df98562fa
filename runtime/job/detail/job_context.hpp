// What all parts of a job's core read: the options, the view, who is reached, where the state on
// this node stands. The core writes it, or the one part that a field names. A part keeps what is
// its own, reads this by reference, and answers with actions and return values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/job/job_core.hpp"
#include "runtime/job/peers.hpp"
#include "runtime/job/progress.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

struct JobContext {
  JobContext(JobCore::Options chosen, view::ViewAgreement::Options agreed);

  const view::View& view() const { return agreement.view(); }
  const NodeId& self() const { return options.self.node; }
  // The state here is one of the view's history, at most some steps old.
  bool is_of_history() const {
    return progress.history() == view().history() && !progress.is_loading();
  }
  bool is_last_step() const { return progress.committed() >= options.total_steps; }
  bool is_applied() const { return progress.applied() == progress.committed(); }
  bool has_room() const { return view().members.size() < options.wanted_nodes; }
  // Who is through stays so when others take the job back.
  bool holds_result() const {
    return finished && is_last_step() && is_applied() && (through || is_of_history());
  }
  // This node may compute, send and commit in this view.
  bool can_exchange() const {
    return member && state_ready && !holding && !work_lost && !agreement.frozen() &&
           !takes_result && !through;
  }
  // From the disk of this node, which is no member, the members get the state that the view goes
  // back to.
  bool gives_base() const;
  const Checkpoint& newest_on_disk() const {
    return later_checkpoint ? *later_checkpoint : checkpoint;
  }
  bool needs_lease() const { return view::needs_lease(view()); }
  // A checkpoint of this name may be one of the job's, as far as the view tells.
  bool may_be(const view::CheckpointName& name) const {
    return name.step <= options.total_steps && view().descends_from(name.history, name.step);
  }
  // Whether the order is about this job, and whoever signed it may give it now. Fails with
  // permission_denied.
  Result<void> may_order(const view::SignedOrder& order,
                         view::OrderUse use = view::OrderUse::first) const;
  bool is_changing() const { return agreement.frozen() || agreement.wanted(); }

  bool gone(const NodeId& node) const { return peers.gone(node); }
  bool reached(const NodeId& node) const { return peers.reached(now, node); }
  bool suspected(const NodeId& node) const { return peers.suspected(now, node); }
  bool heard_within(const NodeId& node, Duration time) const {
    const Time heard = peers.heard(node);
    return heard != Time{} && now < heard + time;
  }

  // Members and acceptors of the view, this node among them; and with the nodes that may know more.
  std::vector<NodeId> everybody() const;
  std::vector<NodeId> everybody_and_hints() const;
  std::vector<NodeId> other_members() const;

  void send(const NodeId& to, JobBody body, Actions& out, bool bulk = false) const;
  void send_all(const JobBody& body, Actions& out) const;  // to everybody
  void report(std::string text, Actions& out) const { out.push_back(Report{std::move(text)}); }
  // What a fetch, of a state or of results, wants sent and told.
  template <class Effects>
  void pass_on(Effects& effects, Actions& out) const {
    for (StateSource::Reply& one : effects.sends) send(one.to, std::move(one.body), out);
    if (!effects.report.empty()) report(std::move(effects.report), out);
  }
  // To fetch the state after that step from these; digest zero: whichever they hold.
  StateFetch::Options fetch_of(std::uint64_t step, const Digest& digest,
                               std::vector<NodeId> sources) const;

  JobCore::Options options;
  view::ViewAgreement agreement;
  Peers peers;
  Progress progress;
  // Newest intact one on this node's disk, as others are told of it; and one that was written since
  // this node promised: the view to come may be made of what it has promised.
  Checkpoint checkpoint;
  std::optional<Checkpoint> later_checkpoint;
  std::vector<NodeId> hints;
  Time now{};                // of the input being handled
  Time installed_at{};       // when the view was
  bool member = false;       // this life of this node is in the current view
  bool state_ready = false;  // and holds its state: at base_step or later in this view
  bool wants_in = false;
  bool work_lost = false;     // it hangs: this node takes no part until it comes back
  bool holding = false;       // commits nothing more: it is about to leave (Leaver)
  bool takes_result = false;  // of others, instead of computing (Ending)
  bool finished = false;      // all are through with the last step, or this node is (Ending)
  bool through = false;       // with a result of before this view: computes nothing more
};

// Members and acceptors of a view.
std::vector<NodeId> everybody_in(const view::View& view);

}  // namespace gpunode::job
