// The job actor's words: what people and the job board are told of a job.
#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/job/detail/job_actor_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_report.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::jobs::actor {

namespace {

constexpr std::size_t kMaxRefused = 64;

job::JobStatus status_of(Self* self) {
  return self->state.core ? self->state.core->status(now(self)) : job::JobStatus{};
}

// Where a part that stands at `before` is once its core is at `core`.
JobPhase phase_after(JobPhase before, job::Phase core) {
  switch (core) {
    case job::Phase::outsider:  // also before the first tick; a view says it for certain
      return before == JobPhase::learning ? JobPhase::outsider : before;
    case job::Phase::learning:
      return JobPhase::learning;
    case job::Phase::syncing:
      return JobPhase::syncing;
    case job::Phase::running:
    case job::Phase::done:  // until all members are
      return JobPhase::running;
    case job::Phase::frozen:
      return before;  // for a moment
    case job::Phase::paused:
      return JobPhase::paused;
    case job::Phase::witness:
      return JobPhase::witness;
    case job::Phase::stopped:
      return JobPhase::stopped;
  }
  return before;
}

// Why the job does not get on here, if it does not.
std::string reason_of(JobPhase phase, const job::JobStatus& status) {
  if (phase == JobPhase::paused || phase == JobPhase::stopped) return status.reason;
  return status.hang ? status.hang->text() : "";
}

// Why the job is paused; `own`: by what the core knows.
std::string reason_to_pause(Self* self, const std::string& own) {
  const auto cluster = self->state.options.cluster->read();
  const std::vector<HeardHint> hints = hints_of(*cluster, self->state.options.id);
  const std::string nodes = result_removed_on(hints, *cluster);
  if (nodes.empty()) {
    const std::string failed = failed_text(hints, *cluster);
    return own + (own.empty() || failed.empty() ? "" : "; ") + failed;
  }
  return "the job is finished, and its result was removed on " + nodes +
         ": this node waits for another that has it; `gpunode job rm` removes the job";
}

// Whom this node would get the state from, if none of them answers.
std::string absence_text(Self* self, const job::JobStatus& status) {
  const auto cluster = self->state.options.cluster->read();
  std::vector<NodeId> others = status.members;
  std::erase(others, self->state.options.core.self.node);
  const auto answers = [&](const NodeId& node) { return cluster->alive(node); };
  if (others.empty() || std::ranges::any_of(others, answers)) return "";
  return "it waits for a member that has the state: " + cluster->list_of(others);
}

// Takes over where the core is, which moves on between two views too: a learner that has its state
// runs, and what a pause waits for changes with who answers.
void follow_core(Self* self, const job::JobStatus& status) {
  State& state = self->state;
  if (!state.core || is_over(state.phase)) return;
  state.phase = phase_after(state.phase, status.phase);
  // Of an earlier life: the others go on, and this node hears of their view when they make the next.
  if (state.phase == JobPhase::forming && status.phase == job::Phase::outsider &&
      state.ledger.hears_of_steps())
    state.phase = JobPhase::outsider;
  // That the disk did not take the result may be known a tick before the core has ended.
  const bool unsaved = state.result_due && status.committed == state.options.spec.train.steps;
  if (state.phase == JobPhase::running &&
      (unsaved || (status.phase == job::Phase::done && state.finished)))
    state.phase = state.evaluating && !state.result_due ? JobPhase::validating : JobPhase::saving;
  if (status.stopped && status.phase != job::Phase::paused) state.phase = JobPhase::stopped;
  const std::string own = reason_of(state.phase, status);
  state.reason = said(self, state.phase == JobPhase::paused ? reason_to_pause(self, own) : own);
  if (state.reason.empty() && state.result_due) state.reason = unsaved_text(state);
  if (state.reason.empty() && state.phase == JobPhase::learning)
    state.reason = said(self, absence_text(self, status));
}

// Whether a part that has ended made the last step, or was given it: one that only voted may know
// of that step from the others' history, and has no weights.
bool has_made_all(const State& state, const job::JobStatus& status) {
  return state.phase == JobPhase::finished && status.committed == state.options.spec.train.steps;
}

bool has_result(const State& state, const job::JobStatus& status) {
  return has_made_all(state, status) &&
         (state.options.core.has_result ||
          state.ledger.seen().checkpoint_step == state.options.spec.train.steps);
}

// Whether a part that made the last step has ended without the result on this disk or another.
bool lacks_result(const State& state, const job::JobStatus& status) {
  return has_made_all(state, status) && !has_result(state, status) && !state.checkpoint_failed;
}

}  // namespace

std::string said(Self* self, const std::string& text) {
  return in_words(text, *self->state.options.cluster->read(), self->state.options.spec.name);
}

void tell_supervisor(Self* self) {
  State& state = self->state;
  // Who has failed has no core any more: it was told with the last that this knew.
  if (!state.core && is_over(state.phase) && state.told.starts_with(to_string(state.phase))) return;
  job::JobStatus status = status_of(self);
  follow_core(self, status);
  // A hang lasts longer each time that it is looked at.
  const std::string reason =
      status.hang ? std::string(job::to_string(status.hang->work)) + " hangs" : state.reason;
  const KnownStep known = state.ledger.known(status, state.phase);
  std::string summary = std::string(to_string(state.phase)) + reason +
                        std::to_string(status.view_id) + "/" +
                        std::to_string(status.members.size()) + "/" +
                        std::to_string(status.stopped ? known.step : known.step / 16) + known.how +
                        "/" + std::to_string(state.damaged_found);
  if (summary == state.told) return;
  state.told = summary;
  const JobFigures& seen = state.ledger.seen();
  const auto finished = state.ledger.finished();
  self->send(state.options.supervisor,
             JobProgress{state.options.id,
                         state.phase,
                         state.reason,
                         known.step,
                         state.options.spec.train.steps,
                         status.view_id,
                         status.members,
                         known.loss,
                         {known.at ? state.ledger.times().seconds(*known.at) : 0, known.how},
                         finished ? state.ledger.times().seconds(*finished) : 0,
                         state.ledger.tokens_per_second(),
                         seen.to_device_bytes,
                         seen.to_host_bytes,
                         is_over(state.phase),
                         state.damaged_found,
                         state.result_due.has_value(),
                         lacks_result(state, status),
                         has_result(state, status),
                         state.device_lost});
}

void on_event(Self* self, const std::string& text) {
  self->state.ledger.on_event(now(self), text);
  self->state.keeping.on_change();
}

void note(Self* self, const std::string& raw) {
  const std::string text = said(self, raw);
  log::info("job", self->state.options.spec.name + ": " + text);
  on_event(self, text);
}

void warn(Self* self, const std::string& raw) {
  State& state = self->state;
  const std::string text = said(self, raw);
  log::warning("job", state.options.spec.name + ": " + text);
  on_event(self, "warning: " + text);
}

void note_figures(Self* self, const Applied& applied) {
  State& state = self->state;
  if (applied.skipped)
    if (const auto text = state.ledger.on_skipped(now(self), applied.step))
      log::warning("job", state.options.spec.name + ": " + *text);
  state.ledger.know_host_traffic(applied.to_device_bytes, applied.to_host_bytes);
  state.ledger.on_applied(applied.step, applied.loss, applied.state);
  const bool odd = !applied.skipped && !std::isfinite(applied.loss);
  if (odd && state.warned_of.insert("loss").second)
    warn(self,
         "the loss of step " + std::to_string(applied.step) +
             " is not finite, though its gradient is: look at what the model returns as loss");
}

void set_phase(Self* self, JobPhase phase, const std::string& reason) {
  self->state.phase = phase;
  self->state.reason = said(self, reason);
  tell_supervisor(self);
}

void on_refused(Self* self, const Refusal& refused) {
  State& state = self->state;
  const auto known = state.refused.find(refused.node);
  if (known == state.refused.end() ? state.refused.size() == kMaxRefused
                                   : known->second == refused.reason)
    return;
  state.refused[refused.node] = refused.reason;
  note(self, "node " + self->state.options.cluster->read()->name_of(refused.node) +
                 " takes no part: " + refused.reason);
}

void on_proof_differs(Self* self, std::uint64_t steps) {
  if (!self->state.warned_of.insert("proof").second) return;
  warn(self, "the steps up to " + std::to_string(steps) + " were not fed what the data at " +
                 self->state.options.spec.data.text() +
                 " gives here: it was changed since on this node, or a member computes on other "
                 "data; compare it on all of them");
}

void on_command(Self* self, const Command& command) {
  State& state = self->state;
  state.ledger.look(*state.options.clock);
  auto cluster = state.options.cluster->read();
  job::JobStatus status = status_of(self);  // outlives the input, which refers to it
  follow_core(self, status);
  ReportInput input{state.options.id,
                    state.options.spec,
                    state.ledger,
                    status,
                    *cluster,
                    state.phase,
                    state.reason,
                    now(self),
                    state.refused,
                    state.damaged,
                    state.disk.late(now(self)),
                    state.phase == JobPhase::finished && state.checkpoint_failed.has_value()};
  command.answer(command.name == "job.progress" ? progress_json(input)
                 : command.name == "job.log"    ? log_json(input)
                                                : report_json(input));
}

}  // namespace gpunode::jobs::actor
