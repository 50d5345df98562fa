// What people order: stop, resume, recover by force. An order is a wish that its node carries in
// every promise until a view has carried it out; so it does not matter who proposes, nor whether
// the first attempt fails.
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
// A step that does not end is no reason not to stop.
constexpr Duration kStepTimeout = std::chrono::seconds(20);

Error bad(std::string detail) {
  return {ErrorCode::invalid_argument, std::move(detail)};
}
}  // namespace

Result<void> JobCore::request_stop(Time now, Actions& out) {
  state_->now = now;
  return state_->stop(now, out);
}

Result<void> JobCore::request_resume(Time now, Actions& out) {
  state_->now = now;
  return state_->resume(now, out);
}

Result<void> JobCore::request_recover(Time now, Actions& out) {
  state_->now = now;
  return state_->recover(now, out);
}

void JobCore::go_on_alone(Time now, Actions& out) {
  state_->now = now;
  if (state_->has_part()) state_->split(now, view::Turn::Kind::split, out);
}

Result<void> JobCore::request_resume_from(Time now, std::uint64_t step, Actions& out) {
  state_->now = now;
  return state_->go_back(now, step, out);
}

Result<void> JobCore::State::has_part() const {
  if (finish_told || (state_ready && committed >= options.total_steps))
    return bad("the job has done its last step");
  const view::View& view = agreement.view();
  if (view.rank_of(options.self.node) || view.is_acceptor(options.self.node)) return {};
  return bad("this node has no part in the job's last view; ask one that has");
}

Result<void> JobCore::State::stop(Time at, Actions& out) {
  if (Result<void> part = has_part(); !part) return part;
  if (!agreement.view().stopped) take_wish(at, view::Wish::stop, out);
  return {};
}

Result<void> JobCore::State::resume(Time at, Actions& out) {
  if (Result<void> part = has_part(); !part) return part;
  if (!agreement.view().stopped) return bad("the job is not stopped");
  take_wish(at, view::Wish::resume, out);
  return {};
}

void JobCore::State::take_wish(Time at, view::Wish wanted, Actions& out) {
  wish = wanted;
  wished_at = at;
  watch_wish(at, out);
}

Result<void> JobCore::State::recover(Time at, Actions& out) {
  if (Result<void> part = has_part(); !part) return part;
  report("the job is recovered by force: whoever answers goes on as generation " +
             std::to_string(agreement.view().generation() + 1),
         out);
  split(at, view::Turn::Kind::ordered, out);
  return {};
}

void JobCore::State::split(Time at, view::Turn::Kind kind, Actions& out) {
  split_kind = kind;
  view::ViewAgreement::Effects effects;
  agreement.force(at, effects);
  carry_out(at, effects, out);
}

Result<void> JobCore::State::go_back(Time at, std::uint64_t step, Actions& out) {
  if (Result<void> part = has_part(); !part) return part;
  if (member && state_ready && !through)
    return bad("this node holds the state after step " + std::to_string(committed) +
               ": nothing is lost that the job would have to go back for");
  resume_from = step;
  report("the job is to go back to the checkpoint of step " + std::to_string(step) +
             ", whatever was reported durable",
         out);
  wish = view::Wish::resume_from;
  wished_at = at;
  agreement.want_change(at);
  return {};
}

// Starts the view change that a wish wants: a stop between two steps, everything else now.
void JobCore::State::watch_wish(Time at, Actions& out) {
  if (wish == view::Wish::none || agreement.wanted() || agreement.frozen()) return;
  if (wish == view::Wish::resume_from) return agreement.want_change(at);
  const bool in_step = can_exchange() && exchange;
  if (wish == view::Wish::stop && in_step && at < wished_at + kStepTimeout) return;
  change_view(at, wish == view::Wish::stop ? "a person stops the job" : "a person resumes the job",
              out);
}

// Who is left goes on alone, where the job says so: the lowest live rank first, and never who holds
// no state: all it could do is begin anew.
void JobCore::State::watch_lost_quorum(Time at, Actions& out) {
  if (!options.goes_on_alone || phase != Phase::paused || !has_part()) return;
  if (!member || !state_ready) return;
  const view::View& view = agreement.view();
  Duration wait = options.timings.alone_after;
  for (const view::Member& one : view.members) {
    if (one.node == options.self.node) break;
    if (!gone(one.node)) wait += options.timings.alone_turn;
  }
  if (at < std::max(phase_since, alone_told) + wait) return;
  alone_told = at;
  out.push_back(LostQuorum{});
}

// In a stopped view, once the state at its base is in place.
void JobCore::State::tell_stopped(Actions& out) {
  if (!agreement.view().stopped || agreement.frozen() || stop_told || !member || !state_ready ||
      applied != committed || committed >= options.total_steps)
    return;
  stop_told = true;
  out.push_back(Stopped{committed, state_digest, running});
}

}  // namespace gpunode::job
