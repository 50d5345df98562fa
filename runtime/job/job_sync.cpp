// State transfer of the job: offering this node's state to learners, and becoming up to date.
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
// A state on a slow disk: 16 MiB a second.
Duration time_to_load(std::uint64_t bytes) {
  return std::chrono::milliseconds(bytes >> 14);
}
}  // namespace

void JobCore::State::offer_state(Time at, Actions& out) {
  if (applied != committed || !((member && state_ready) || holds_result())) return;
  StateSource::Effects effects;
  source.set_current(at, {committed, 0, state_digest, result_digest, running}, effects);
  carry_out(effects, out);
}

void JobCore::State::start_fetch(Time at, Actions& out) {
  const view::View& view = agreement.view();
  std::vector<NodeId> sources;
  for (const NodeId& node : view.sync_sources)
    if (node != options.self.node) sources.push_back(node);
  if (sources.empty()) {  // it was to be this node, in an earlier life of its core
    change_view(at, "no member holds the state any more", out);
    return;
  }
  const bool goes_on =
      fetch && fetch->step() == view.base_step && fetch->meta() &&
      fetch_history == view.history() &&
      (view.state_digest == Digest{} || fetch->meta()->digest == view.state_digest);
  if (goes_on) {
    fetch->set_sources(std::move(sources));
  } else {
    StateFetch::Options chosen;
    chosen.step = view.base_step;
    chosen.state_digest = view.state_digest;
    chosen.result_digest = view.result_digest;
    chosen.sources = std::move(sources);
    chosen.max_bytes = options.max_state_bytes;
    chosen.part_bytes = options.state_part_bytes;
    fetch.emplace(std::move(chosen));
    fetch_history = view.history();
  }
  if (!learn_began) learn_began = at;
  tick_fetch(at, out);
}

void JobCore::State::tick_fetch(Time at, Actions& out) {
  StateFetch::Effects effects;
  fetch->on_tick(at, effects);
  carry_out(at, effects, out);
}

void JobCore::State::carry_out(Time, StateFetch::Effects& effects, Actions& out) {
  for (StateSource::Reply& one : effects.sends) send(one.to, std::move(one.body), out);
  if (!effects.report.empty()) report(std::move(effects.report), out);
  if (!effects.complete) return;
  installing = *fetch->meta();
  drop_fetch();
  watchdog.dropped(Watchdog::Work::apply);
  watchdog.asked(Watchdog::Work::install, now, time_to_load(installing->size_bytes));
  out.push_back(InstallState{installing->step, std::move(*effects.complete)});
}

// Offers at once; parts wait for their turn, see serve_learners.
void JobCore::State::reply(std::vector<StateSource::Reply>& replies, Actions& out) {
  for (StateSource::Reply& one : replies) {
    if (std::holds_alternative<StateMeta>(one.body))
      send(one.to, std::move(one.body), out);
    else
      queued.push_back(std::move(one));
  }
}

void JobCore::State::carry_out(StateSource::Effects& effects, Actions& out) {
  reply(effects.replies, out);
  if (effects.read_token) out.push_back(ReadState{*effects.read_token, committed});
}

void JobCore::State::on_installed(Time at, std::uint64_t step, Actions& out) {
  if (installing && installing->step == step) {
    committed = applied = step;
    state_digest = installing->digest;
    result_digest = installing->result_digest;
    running = installing->data_fingerprint;
    history = fetch_history;
    installing.reset();
  } else if (restoring && restoring->step == step) {
    committed = applied = step;
    state_digest = restoring->state_digest;
    result_digest = Digest{};
    running = restoring->running;
    history = restoring->history;
    restoring.reset();
  } else {
    return;
  }
  // The views may have gone on meanwhile, to a history that this state is no part of.
  const view::View& view = agreement.view();
  if (view.descends_from(history, committed)) history = view.history();
  watchdog.done(Watchdog::Work::install, at);
  work_came_back(out);
  partials.clear();
  partial_step = 0;
  discard_kept = true;
  cut_off = false;
  drop_results();
  if (committed >= options.total_steps && member) done_at = at;
  settle(at, out);
  result_tick(at, out);
}

}  // namespace gpunode::job
