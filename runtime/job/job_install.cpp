// What a decided view means for this node: what is void now, what goes on, and how this node comes
// to hold the state that the view starts from.
#include <algorithm>
#include <utility>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

void JobCore::State::install(view::ViewChain chain, Actions& out, bool yields) {
  const view::View before = job.view();
  const bool had_result = job.holds_result();
  const Time wanted_since =
      job.is_changing() ? std::min(job.now, job.agreement.wanted_since()) : job.now;
  news.on_view();
  view::ViewAgreement::Effects effects;
  job.agreement.adopt(std::move(chain), effects);
  carry_out(effects, out);
  const view::View& view = job.view();
  if (const auto later = std::exchange(job.later_checkpoint, std::nullopt);
      later && view.descends_from(later->history, later->step))
    on_checkpoint(*later);
  job.peers.on_part(job.everybody());
  job.installed_at = job.now;
  job.member = view.has_member(job.options.self);
  job.state_ready = false;
  committed_at = Time{};
  paused_for.clear();
  phase_since = job.now;  // what it waits for from now on is another wait
  end_told.clear();
  if (forks.rival() == view.met) forks.meet(0);
  const bool turned = view.history() != before.history() || yields;
  if (turned) job.through = job.through || had_result;

  const bool redo = view.owner_rotation != before.owner_rotation || turned;
  std::vector<NodeId> computed_by = steps.plan().computing(before);
  // A result that is held, but not yet committed, may be the view's base.
  std::optional<collective::AllReduce> held = steps.on_view(redo && !broken("redo_keeps_partials"));
  tell_parts(before, turned, out);
  if (!job.member) {
    donor.forget_states();
    out.push_back(ViewInstalled{view, Role::outsider, wanted_since});
    leave_tick(out);
    return;
  }
  steps.follow_plan_of(view);
  const Progress& here = job.progress;
  const bool rolls_forward =
      held && !view.restores && view.base_step == here.committed() + 1 &&
      here.history() == view.history() &&
      (held->result_digest() == view.result_digest || broken("roll_forward_any_digest"));
  // Who is through has more than the base.
  const bool survives = rolls_forward || holds_base() || job.through;
  out.push_back(ViewInstalled{view, survives ? Role::member : Role::learner, wanted_since});
  if (rolls_forward) commit(*held, std::move(computed_by), false, out);
  committed_at = Time{};  // no DONE was exchanged for it here
  for (const view::Member& one : view.members) donor.on_member(one.node);
  settle(out);
}

// Each part lets go of what was of the view before.
void JobCore::State::tell_parts(const view::View& before, bool turned, Actions& out) {
  stalls.on_view(out);
  lost.on_view(job.self(), before, job.view());
  lease.on_view(before);
  durability.on_view();
  orders.on_view(before, out);
  if (turned) leave_history(before, out);
  joiners.on_view(before, donor.results_from());
  witnesses.on_view(before);
  learner.on_view(before);
  leaver.on_view(before);
  steps.link().on_view(out);
}

// A view of another history: the state here stays if the new history has come from it.
void JobCore::State::leave_history(const view::View& before, Actions& out) {
  const view::View& view = job.view();
  const Progress& here = job.progress;
  const bool kept = view.descends_from(here.history(), here.committed()) || broken("never_foreign");
  if (kept) job.progress.follow(view.history());
  if (view.generation() != before.generation() && here.committed() > 0)
    job.report("the job goes on as generation " + std::to_string(view.generation()) +
                   (kept ? "" : ": what this node had done alone is given up"),
               out);
  ending.on_history();
  donor.forget_all();
  copies.on_history();
  durability.on_history();
  joiners.on_history();
}

// The state here is the one that the view starts from (it may still be under Apply).
bool JobCore::State::holds_base() const {
  const view::View& view = job.view();
  const Progress& here = job.progress;
  if (!job.is_of_history() || here.committed() != view.base_step) return false;
  return view::agree(here.result_digest(), view.result_digest) &&
         (!job.is_applied() || view::agree(here.state_digest(), view.state_digest));
}

// Enters the view as a member: with the state at hand, or by fetching it.
void JobCore::State::settle(Actions& out) {
  if (!job.member || job.state_ready || job.progress.is_loading() || job.through) return;
  const view::View& view = job.view();
  // What was promised of another state stands until the view that follows from it.
  if (job.agreement.frozen() && !holds_base()) return;
  if (holds_base()) {
    if (view.restores) job.progress.forget_result();  // as at the members that load the checkpoint
    job.state_ready = true;
    learner.on_up_to_date(out);
    donor.offer(out);
    maybe_begin(out);
    return;
  }
  if (job.takes_result) return;  // which is more than the view begins with
  donor.forget_states();
  if (const std::optional<Checkpoint> state = loader.at_hand()) {
    learner.on_load();
    return loader.restore(*state, out);
  }
  if (learner.is_late()) {  // the members still keep the results it lacks
    learner.on_tick(out);
    return load_what_came(out);
  }
  if (job.progress.committed() > view.base_step && job.progress.history() == view.history())
    job.report("the view resumes from step " + std::to_string(view.base_step) +
                   ", before a step that this node has committed: its state is fetched anew",
               out);
  // It was to be this node that gives it, in an earlier life of its core.
  if (!learner.fetch_base(out)) change_view("no member holds the state any more", out);
  load_what_came(out);
}

}  // namespace gpunode::job
