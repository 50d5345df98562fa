// The learner's side: on the way from outside, or from a few steps behind, to the state of the
// members, who go on meanwhile. It fetches the state after some step, then follows the results of
// the steps since; a node that was away for a short while needs the results alone. When only what a
// view change brings is missing it says that it is ready, and a view may name it.
#include <algorithm>
#include <set>

#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kHeardLately = std::chrono::milliseconds(1000);
constexpr Duration kMissedAfter = std::chrono::milliseconds(250);
constexpr std::uint64_t kPaceResults = 4;      // followed so far: then its pace is known
constexpr std::uint64_t kFewResults = 32;      // a view waits for no more
constexpr std::uint64_t kLargestMargin = 256;  // steps

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}
std::string one_digit(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 2);
}
}  // namespace

// The state here is one of the view's history, at most some steps old.
bool JobCore::State::is_of_history() const {
  return history == agreement.view().history() && !installing && !restoring;
}

// A member of the view that lacks only results that the others keep for it.
bool JobCore::State::is_late() const {
  return member && !state_ready && is_of_history() && !cut_off &&
         committed < agreement.view().base_step;
}

bool JobCore::State::learns() const {
  const view::View& view = agreement.view();
  if (view.view_id == 0 || finish_told || installing || restoring) return false;
  if (member && result_sources.empty()) return is_late();
  if (result_wanted) return wants_in && !leaving;
  if (view.stopped || work_lost) return false;  // it could not compute what it is named for
  const bool room =
      view.members.size() < options.wanted_nodes || view.rank_of(options.self.node).has_value();
  return wants_in && !leaving && room;
}

bool JobCore::State::is_ready(Time at) const {
  if (!learns() || fetch || !following || !is_of_history()) return false;
  if (!following->has_sources() || at > told_at + kHeardLately) return false;
  // A step that it applies just now takes no longer than it takes the members.
  const std::uint64_t behind = std::max(following->told(), committed) - committed;
  const bool paced = learned_results >= kPaceResults && behind <= kFewResults;
  const bool near = paced && behind * learn_pace <= options.timings.ready_within;
  return behind <= 1 || near;
}

std::uint64_t JobCore::State::learned_bytes() const {
  return learned_before + (fetch ? fetch->received_bytes() : 0) +
         (following ? following->received_bytes() : 0);
}

// Asks for admission, and shows members how far the state has come.
void JobCore::State::join_tick(Time at, Actions& out) {
  const view::View& view = agreement.view();
  if (!wants_in || leaving || work_lost || finish_told || (member && state_ready)) return;
  if (view.view_id == 0 && view.is_acceptor(options.self.node)) return;
  const bool full =
      !member && view.members.size() >= options.wanted_nodes && !view.rank_of(options.self.node);
  const bool often = following || fetch || is_late();
  const Duration every = options.timings.join_every * (full ? 4 : 1);
  const bool all = join_asked == Time{} || at >= join_asked + every;
  if (!all && !(often && at >= learn_asked + options.timings.learn_every)) return;
  std::set<NodeId> targets;
  for (const NodeId& node : peers_of(view)) targets.insert(node);
  if (all) targets.insert(hints.begin(), hints.end());
  if (all) join_asked = at;
  learn_asked = at;
  JoinAsk ask{options.fingerprint, !member, learned_bytes(), is_ready(at), committed, {}};
  ask.checkpoint = options.checkpoint.name();
  ask.checkpoint_digest = options.checkpoint.state_digest;
  for (const view::Member& one : view.members)
    if (const auto found = peers.find(one.node);
        found != peers.end() && at < found->second.heard + kHeardLately && !gone(one.node))
      ask.heard.push_back(one.node);
  for (const NodeId& node : targets) send(node, ask, out);
}

// A member told where it is: the way to the state begins or goes on there.
void JobCore::State::on_source(Time at, const NodeId& from, const StepStatus& status,
                               Actions& out) {
  if (!status.state_ready || status.results_from == 0 || !agreement.view().rank_of(from)) return;
  told_at = at;
  told_committed = std::max(told_committed, status.committed);
  told_from = status.results_from;
  if (!learns()) return;
  if (!learn_began) {
    learn_began = at;
    learned_before = learned_results = 0;
    learn_pace = Duration{};
  }
  if (!following && !cut_off && result_sources.empty() && is_of_history()) follow_results();
  if (following) following->on_source(at, from, status.committed, status.results_from);
  learn_tick(at, out);
}

void JobCore::State::follow_results() {
  ResultFetch::Options chosen;
  chosen.first_step = committed + 1;
  chosen.last_step = options.total_steps;
  chosen.element_count = options.element_count;
  chosen.part_bytes = options.state_part_bytes;
  following.emplace(chosen);
}

void JobCore::State::learn_tick(Time at, Actions& out) {
  if (!learns()) {
    if (!member && !installing && !restoring) {
      drop_fetch();
      drop_results();
      learn_began.reset();
    }
    return;
  }
  if (following && following->fell_behind()) {
    report("the results since step " + std::to_string(committed) +
               " are no longer kept by the members: the state is fetched anew",
           out);
    drop_results();
    cut_off = true;
    if (member) return settle(at, out);
  }
  if (!following && !cut_off && result_sources.empty() && is_of_history()) follow_results();
  if (following) {
    ResultFetch::Effects effects;
    following->on_tick(at, effects);
    carry_out(effects, out);
    follow(at, out);
  } else if (told_at != Time{}) {
    fetch_some_state(at, out);
  }
}

// The state after a step that the sources hold now or will soon; which one is theirs to say.
void JobCore::State::fetch_some_state(Time at, Actions& out) {
  if (fetch && fetch->meta() && (told_from > fetch->step() + 1 || fetch->is_abandoned(at))) {
    report("the members are too far beyond step " + std::to_string(fetch->step()) +
               ", or gone: its state is given up and a newer one fetched",
           out);
    drop_fetch();
  }
  if (fetch && !fetch->meta()) {
    // All may have passed the step before they heard of the wish: the next one is further ahead.
    if (told_committed <= fetch->step()) fetch_asked = at;
    if (at < fetch_asked + kMissedAfter) return tick_fetch(at, out);
    const std::uint64_t passed = told_committed - fetch->step();
    fetch_margin = std::clamp(2 * std::max(fetch_margin, passed), std::uint64_t{1}, kLargestMargin);
    drop_fetch();
  }
  if (!fetch) {
    begin_fetch(std::min(told_committed + fetch_margin, options.total_steps));
    fetch_asked = at;
  }
  tick_fetch(at, out);
}

std::vector<NodeId> JobCore::State::state_sources() const {
  std::vector<NodeId> sources;
  for (const view::Member& one : agreement.view().members)
    if (one.node != options.self.node && !result_sources.contains(one.node))
      sources.push_back(one.node);
  sources.insert(sources.end(), result_sources.begin(), result_sources.end());
  return sources;
}

void JobCore::State::begin_fetch(std::uint64_t step) {
  StateFetch::Options chosen;
  chosen.step = step;
  chosen.sources = state_sources();
  chosen.max_bytes = options.max_state_bytes;
  chosen.part_bytes = options.state_part_bytes;
  fetch.emplace(std::move(chosen));
  fetch_history = agreement.view().history();
}

// Members may offer another step than the one asked for: one that they have copied already.
void JobCore::State::on_offer(Time at, const NodeId& from, const StateMeta& meta, Actions& out) {
  if (!fetch) return;
  const bool new_to_us = meta.step > committed || !is_of_history();
  const bool other = !member && !fetch->meta() && meta.step != fetch->step();
  if (meta.step > options.total_steps || (other && !new_to_us)) return;
  if (other && !result_sources.empty()) return;  // no results of another history follow it
  if (other) begin_fetch(meta.step);
  StateFetch::Effects effects;
  fetch->on_meta(at, from, meta, effects);
  carry_out(at, effects, out);
}

void JobCore::State::on_result(Time at, const NodeId& from, const ResultPart& part, Actions& out) {
  if (!learns() || !following) return;
  ResultFetch::Effects effects;
  following->on_part(at, from, part, effects);
  carry_out(effects, out);
  follow(at, out);
}

// Applies what has come, one step after another.
void JobCore::State::follow(Time at, Actions& out) {
  if (!following || applied != committed || !learns()) return;
  ResultFetch::Effects effects;
  std::optional<ResultFetch::Complete> next = following->take(at, effects);
  carry_out(effects, out);
  if (!next || next->step != committed + 1) return;
  ++committed;
  ++learned_results;
  running += next->data_fingerprint;
  result_digest = next->digest;
  watchdog.asked(Watchdog::Work::apply, at);
  out.push_back(Apply{committed, std::move(next->result), next->data_fingerprint, true});
  const Duration took = at - std::max(learn_applied, learn_began.value_or(at));
  learn_pace = learn_pace == Duration{} ? took : (3 * learn_pace + took) / 4;
  learn_applied = at;
  if (member) settle(at, out);
}

void JobCore::State::carry_out(ResultFetch::Effects& effects, Actions& out) const {
  for (StateSource::Reply& one : effects.sends) send(one.to, std::move(one.body), out);
  if (!effects.report.empty()) report(std::move(effects.report), out);
}

void JobCore::State::drop_fetch() {
  if (fetch) learned_before += fetch->received_bytes();
  fetch.reset();
}

void JobCore::State::drop_results() {
  if (following) learned_before += following->received_bytes();
  following.reset();
}

// A view was installed: what is under way goes on with its members, or is void.
void JobCore::State::follow_view(const view::View& before) {
  const view::View& view = agreement.view();
  cut_off = false;
  if (view.history() != before.history()) {
    drop_results();
    if (!member) drop_fetch();
    told_committed = 0;
    told_at = Time{};
    return;
  }
  if (following) {
    following->set_sources(state_sources());
    following->limit_to(member ? view.base_step : options.total_steps);
  }
  if (fetch && !member) fetch->set_sources(state_sources());
}

// Results of committed steps, and states after them, stay what they are, and a slow link is full of
// them: what is under way to a learner, and what it asks for, stays good when the view changes.
bool JobCore::State::outlives_views(const JobMessage& message) const {
  const bool carries = std::holds_alternative<ResultPart>(message.body) ||
                       std::holds_alternative<ResultRead>(message.body) ||
                       std::holds_alternative<StatePart>(message.body) ||
                       std::holds_alternative<StateRead>(message.body);
  return carries && message.view.history == agreement.view().history();
}

void JobCore::State::lose_learned(const NodeId& node) {
  if (following) following->lose(node);
  if (fetch) fetch->lose(node);
}

// Who is dead answers nobody: what it owes is asked of others at once.
void JobCore::State::drop_source(const NodeId& node) {
  if (following) following->drop(node);
  if (fetch) fetch->drop(node);
}

void JobCore::State::tell_learned(Time at, Actions& out) {
  if (!learn_began) return;
  learned_time = at - *learn_began;
  learn_began.reset();
  fetch_margin = 0;
  const std::uint64_t bytes = learned_bytes();
  if (bytes == 0) return;
  report("is up to date at step " + std::to_string(committed) + ": " + one_digit(mebibytes(bytes)) +
             " MiB in " + one_digit(std::chrono::duration<double>(learned_time).count()) +
             " s, results of " + std::to_string(learned_results) + " steps among them",
         out);
}

}  // namespace gpunode::job
