// The end of the job for whoever was no member at it, but wanted to be: it had crashed, was cut
// off, or still on its way in. It gets the state after the last step as every learner gets a state,
// from the members, who keep it. Only then it is through, with the result, as if it had been there.
// So does who hears that another generation has finished the job.
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kPatience = std::chrono::seconds(60);  // without a byte of the result
}  // namespace

bool JobCore::State::holds_result() const {
  if (!finish_told || committed < options.total_steps || applied != committed) return false;
  return through || is_of_lineage();  // who is through stays so when others take the job back
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
  if (!wants_in || leaving || options.mutations.ends_without_result)
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
  if (wants_in && !leaving && !options.mutations.ends_without_result) {
    if (!result_sources.insert(from).second) return;
    if (!result_wanted)
      report("another generation has finished the job; this node fetches the result", out);
    result_wanted = true;
    result_progress = told_at = at;
    told_committed = options.total_steps;
    drop_fetch();
    drop_results();
    if (member) change_view(at, "another generation has finished the job", out);
    learn_tick(at, out);
    return result_tick(at, out);
  }
  finish_elsewhere("another generation has finished the job", out);
  leaving = true;
  if (member) change_view(at, "another generation has finished the job", out);
}

void JobCore::State::result_tick(Time at, Actions& out) {
  if (!result_wanted || finish_told || (member && result_sources.empty())) return;
  if (committed >= options.total_steps && applied == committed && is_of_lineage()) {
    drop_fetch();
    drop_results();
    tell_learned(at, out);
    finish_elsewhere("the job is finished, and its result is here", out);
    return;
  }
  const bool busy = installing || applied != committed;
  if (busy || learned_bytes() != result_bytes) result_progress = at;
  result_bytes = learned_bytes();
  if (at < result_progress + kPatience) return;
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
