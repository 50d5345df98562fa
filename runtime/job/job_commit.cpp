// What changes the state on this node: a step that all members hold is committed, a result that a
// learner follows, a state that is put in place.
#include "runtime/base/broken_rule.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

// Starts the next step once the state before it is in place.
void JobCore::State::maybe_begin(Actions& out) {
  if (!job.can_exchange() || steps.under_way() || !job.is_applied() || job.is_last_step()) return;
  if (job.view().stopped && !broken("computes_when_stopped")) return;
  steps.begin(out);
  for (const auto& [from, message] : steps.take_early()) on_step(from, message, out);
  advance(out);
}

void JobCore::State::on_step(const NodeId& from, const StepMessage& message, Actions& out) {
  const auto rank = job.view().rank_of(from);
  if (!rank || !job.member || job.agreement.frozen()) return;
  if (payload_bytes(message.message) > 0) job.peers.on_bytes(from);
  const bool of_now = steps.under_way() && message.step == steps.step();
  if (Result<void> taken = steps.on_message(from, *rank, message, out); !taken)
    return change_view(taken.error().detail, out);
  if (std::holds_alternative<collective::Need>(message.message)) answer(from, out);
  if (of_now) advance(out);
}

void JobCore::State::on_partial(const PartialRange& range, Actions& out) {
  watchdog.progressed(Watchdog::Work::compute);
  work_came_back(out);
  if (steps.on_partial(range, job.can_exchange(), out)) advance(out);
}

// Commits the step under way if every member holds it.
void JobCore::State::advance(Actions& out) {
  if (!steps.under_way() || !job.can_exchange()) return;
  steps.tell_arrived(out);
  const collective::AllReduce& step = *steps.exchange();
  if (step.disagreed())
    return change_view("results of step " + std::to_string(steps.step()) + " differ", out);
  if (steps.newly_held() && broken("tells_held_results"))
    donor.keep_result(steps.step(), step.result(), step.result_digest(), step.data_fingerprint());
  // Without a lease it goes on with the next grant, or in the next view.
  if (!steps.is_complete() || !lease.holds()) return;
  commit(steps.end(), steps.plan().computing(job.view()), true, out);
  on_commit_boundary(out);
}

void JobCore::State::commit(const collective::AllReduce& done, std::vector<NodeId> computed_by,
                            bool in_view, Actions& out) {
  // Their DONE of this step says that they have ours of the step before.
  for (const view::Member& one : job.view().members) job.agreement.heard_by(one.node, committed_at);
  committed_at = job.now;
  paused_for.clear();
  job.progress.commit(done.result_digest(), done.data_fingerprint());
  Committed told;
  told.step = job.progress.committed();
  told.data_fingerprint = done.data_fingerprint();
  told.computed_by = std::move(computed_by);
  told.running = job.progress.running();
  told.at = job.now;
  // A step that was held when its view ended is the next one's base, whose record has the plan.
  if (in_view && done.committed()) {
    told.plan = steps.plan().slices();
    told.times = done.times();
  }
  told.confirm_us = steps.on_commit(told.times);
  steps.link().on_commit(told.times, out);
  stalls.on_commit(out);
  donor.on_commit();
  donor.keep_result(told.step, done.result(), done.result_digest(), done.data_fingerprint());
  fault_point("commit", told.step);
  watchdog.asked(Watchdog::Work::apply, job.now);
  out.push_back(Apply{told.step, done.result(), told.data_fingerprint});
  out.push_back(std::move(told));
  if (job.is_last_step()) ending.on_last_step();
}

// Applies what a learner has got, one step after another.
void JobCore::State::follow(Actions& out) {
  std::optional<ResultFetch::Complete> next = learner.next(out);
  if (!next) return;
  job.progress.commit(next->digest, next->data_fingerprint);
  watchdog.asked(Watchdog::Work::apply, job.now);
  out.push_back(
      Apply{job.progress.committed(), std::move(next->result), next->data_fingerprint, true});
  if (job.is_last_step()) ending.on_last_step();
  if (job.member) settle(out);
}

// A learner's way may have come to a state, to a result, or to its end.
void JobCore::State::load_what_came(Actions& out) {
  if (learner.take_cut() && job.member) settle(out);
  follow(out);
  std::optional<FetchedState> state = learner.take_state();
  // What was promised of the state here stands until the next view.
  const bool stands = job.member && job.state_ready && job.agreement.frozen();
  if (!job.progress.is_loading() && !state && !stands) state = ending.take();
  if (!job.progress.is_loading() && state) loader.load(std::move(*state), out);
}

void JobCore::State::on_applied(std::uint64_t step, const Digest& digest, Actions& out) {
  watchdog.done(Watchdog::Work::apply, job.now);
  work_came_back(out);
  if (step != job.progress.committed() || job.is_applied()) return;
  job.progress.apply(digest);
  steps.on_applied();
  const view::View& view = job.view();
  if (step == view.base_step && view.state_digest != Digest{} && digest != view.state_digest) {
    job.report("the state after step " + std::to_string(step) +
                   " differs from the other members': this machine computes differently; theirs "
                   "is fetched",
               out);
    job.state_ready = false;
    settle(out);
  }
  donor.offer(out);
  maybe_begin(out);
  follow(out);
}

// What was promised of the disk stands until the next view, which may go back to it.
void JobCore::State::on_checkpoint(const Checkpoint& written) {
  const auto counts = [this](const Checkpoint& one) {
    return job.view().descends_from(one.history, one.step);
  };
  if (job.agreement.frozen() && counts(job.checkpoint)) {
    if (written.name() > job.newest_on_disk().name()) job.later_checkpoint = written;
    // One of a history that was given up counts for nothing, however late its step.
  } else if (written.name() >= job.checkpoint.name() || !counts(job.checkpoint)) {
    job.checkpoint = written;
  }
  lease.ask_at_once();  // who else has it
  copies.on_written();
}

void JobCore::State::on_installed(std::uint64_t step, Actions& out) {
  if (!loader.on_loaded(step)) return;
  work_came_back(out);
  steps.on_state_replaced();
  learner.on_installed();
  if (job.is_last_step() && job.member) ending.on_last_step();
  ending.on_installed(out);
  settle(out);
}

}  // namespace gpunode::job
