// The end of the job for whoever was no member at it, but wanted to be: it had crashed, was cut
// off, or still on its way in. It gets the state after the last step as every learner gets a state,
// from the members, who keep it. Only then it is through, with the result, as if it had been there.
// So does who hears that another generation has finished the job, or that it was finished before
// its voters took it back: nobody may be left who can compute it again.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kTimeout = std::chrono::seconds(60);  // without a byte of the result
}  // namespace

bool JobCore::State::holds_result() const {
  if (!finish_told || committed < options.total_steps || applied != committed) return false;
  return through || is_of_history();  // who is through stays so when others take the job back
}

// Asked for, and given, whatever the view: the job's end is one.
bool JobCore::State::is_about_result(const NodeId& from, const JobBody& body) const {
  if (std::holds_alternative<StateAsk>(body) || std::holds_alternative<StateRead>(body))
    return holds_result();
  const bool offered =
      std::holds_alternative<StateMeta>(body) || std::holds_alternative<StatePart>(body);
  return offered && result_wanted && result_sources.contains(from);
}

// A member of the view says that the last step is committed.
void JobCore::State::end_outside(Time at, Actions& out) {
  if (member || finish_told || result_wanted) return;
  if (!wants_in || leaving || broken("ends_without_result"))
    return finish_elsewhere("the job is finished; this node was not a member at its end", out);
  result_wanted = true;
  result_progress = at;
  result_tick(at, out);
  if (finish_told) return;
  report("the job is finished; this node was not a member at its end and fetches the result", out);
}

// Another generation is through: nobody need do it again. Who takes part in this one leaves it, so
// that those who have not heard of it do not wait.
void JobCore::State::on_foreign_status(Time at, const NodeId& from, const StepStatus& status,
                                       Actions& out) {
  if (!status.finished || status.committed < options.total_steps || finish_told) return;
  end_with_result_of(at, from, "another generation has finished the job", out);
}

// The job was finished before this view began, and `from` has its result. A member that lacks the
// view's state takes that instead; one that holds the state goes on, it needs nobody for that. So
// does who is outside, as the view's own members may have died since.
bool JobCore::State::ended_before(const NodeId& from, const StepStatus& status) const {
  if (!status.finished || !status.state_ready || finish_told) return false;
  if (committed >= options.total_steps && is_of_history()) return false;
  const view::View& view = agreement.view();
  if (!member) {
    const bool nobody_left =
        std::all_of(view.members.begin(), view.members.end(),
                    [this](const view::Member& one) { return gone(one.node); });
    return !view.rank_of(from) && ((wants_in && !leaving) || nobody_left);
  }
  if (state_ready) return false;
  const auto& sources = view.sync_sources;  // which give the very state that the view begins with
  return view.base_step < options.total_steps ||
         std::find(sources.begin(), sources.end(), from) == sources.end();
}

void JobCore::State::end_with_result_of(Time at, const NodeId& from, const std::string& why,
                                        Actions& out) {
  if (wants_in && !leaving && !broken("ends_without_result")) {
    if (!result_sources.insert(from).second) return;
    if (!result_wanted) report(why + "; this node fetches the result", out);
    result_wanted = true;
    result_progress = told_at = at;
    told_committed = options.total_steps;
    drop_fetch();
    drop_results();
    if (member) change_view(at, why, out);
    learn_tick(at, out);
    return result_tick(at, out);
  }
  finish_elsewhere(why, out);
  leaving = true;
  if (member) change_view(at, why, out);
}

// Whoever was to give the result is gone: the job goes on here as if it had never told.
void JobCore::State::watch_result_sources(Time at, Actions& out) {
  if (result_sources.empty() || finish_told || installing) return;
  std::erase_if(result_sources, [this](const NodeId& node) { return gone(node); });
  if (!result_sources.empty()) return;
  result_wanted = false;
  drop_fetch();
  settle(at, out);
}

void JobCore::State::result_tick(Time at, Actions& out) {
  watch_result_sources(at, out);
  if (!result_wanted || finish_told || (member && result_sources.empty())) return;
  if (committed >= options.total_steps && applied == committed && is_of_history()) {
    drop_fetch();
    drop_results();
    tell_learned(at, out);
    finish_elsewhere("the job is finished, and its result is here", out);
    return;
  }
  const bool busy = installing || applied != committed;
  if (busy || learned_bytes() != result_bytes) result_progress = at;
  result_bytes = learned_bytes();
  if (at < result_progress + kTimeout) return;
  finish_elsewhere(
      "the job is finished, but nobody that has its result gives it to this node: "
      "export it at a node that was a member to the end",
      out);
}

void JobCore::State::finish_elsewhere(std::string how, Actions& out) {
  finish_told = through = true;
  wants_in = false;
  report(std::move(how), out);
  out.push_back(Finished{});
}

}  // namespace gpunode::job
