// The members' side of learning: who is on its way in, what is given to it, and when it is good
// enough to be named by a view. Learners come last: what they get waits behind the member's own
// sums, but no longer than Timings::give_way, so that they come in at all.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr std::size_t kMaxJoiners = 4096;
constexpr Duration kHearsFor = std::chrono::milliseconds(1500);  // after its last JOIN
constexpr Duration kReadyFor = std::chrono::milliseconds(500);   // after it last said so
constexpr std::uint64_t kStepsInHand = 3;  // that a ready learner may be behind
constexpr int kPartsEachWait = 4;  // 1 MiB each give_way: 10 MiB a second, however busy the links
constexpr std::uint64_t kResultsInHand = 16;  // kept results of which a learner has time to come in
constexpr std::size_t kMaxQueued = 4096;      // parts; beyond it they are lost
}  // namespace

void JobCore::State::on_join(Time at, const NodeId& from, const JobMessage& message,
                             const JoinAsk& ask, Actions& out) {
  const view::View& view = agreement.view();
  if (joiners.size() >= kMaxJoiners && !joiners.contains(from)) return;
  if (view.view_id > 0 && ask.fingerprint != view.fingerprint) {
    send(from, JoinRefused{"its compute fingerprint differs: other instruction set or library"},
         out);
    return;
  }
  Joiner& joiner = joiners[from];
  if (message.boot < joiner.boot) return;
  if (message.boot > joiner.boot) {
    joiner = Joiner{};
    peers[from].cut_until = Time{};  // it dials anew
    peers[from].vain_since.reset();
  }
  if (joiner.asked == Time{} || ask.received_bytes != joiner.received_bytes ||
      at > joiner.asked + options.timings.joiner_fresh)
    joiner.progress = at;
  left.erase(from);
  joiner.boot = message.boot;
  joiner.asked = at;
  joiner.fingerprint = ask.fingerprint;
  joiner.received_bytes = ask.received_bytes;
  const bool same_view = message.view == view.name();
  // A step that it applies when the votes are counted takes nothing of its word back; falling
  // behind does.
  if (ask.ready && same_view)
    joiner.ready_at = at;
  else if (ask.step + kStepsInHand < committed)
    joiner.ready_at = Time{};
  joiner.step = ask.step;
  joiner.checkpoint = ask.checkpoint;
  joiner.checkpoint_digest = ask.checkpoint_digest;
  joiner.hears_us =
      std::find(ask.heard.begin(), ask.heard.end(), options.self.node) != ask.heard.end();
  if (holds_result()) return answer_need(from, out);
  if (!member) return;
  if (committed >= options.total_steps || same_view) answer_need(from, out);
  if (committed >= options.total_steps) return;
  const auto rank = view.rank_of(from);
  if (!rank) return;
  if (view.stopped) return;  // it comes back when the job is resumed
  const Boot known = view.members[*rank].boot;
  const bool lost_it = message.boot == known && ask.outside && same_view;
  if (message.boot > known || lost_it)
    change_view(at, "node " + from.short_text() + " came back without its state", out);
}

bool JobCore::State::is_fresh(const Joiner& joiner) const {
  return joiner.asked != Time{} && now < joiner.asked + options.timings.joiner_fresh;
}

bool JobCore::State::reaches(const NodeId& node, const Joiner& joiner) const {
  return joiner.hears_us && now < joiner.asked + kHearsFor && reached(node);
}

// Ready stands for: what it lacks is kept here, so the view waits for that alone. After the last
// step nobody is any more: there is nothing left to compute.
std::vector<Joining> JobCore::State::learners() const {
  const view::View& view = agreement.view();
  std::vector<Joining> result;
  for (const auto& [node, joiner] : joiners) {
    const bool fits = view.view_id == 0 || joiner.fingerprint == view.fingerprint;
    if (!is_fresh(joiner) || !fits || gone(node) || joiner.barred_until > now) continue;
    const bool kept = joiner.step + 1 >= log.first_step(committed) && joiner.step <= committed + 1;
    const bool said = joiner.ready_at != Time{} && now < joiner.ready_at + kReadyFor;
    const bool ready = said && kept;
    result.push_back({{node, joiner.boot},
                      ready && committed < options.total_steps,
                      joiner.checkpoint,
                      joiner.checkpoint_digest});
  }
  return result;
}

// Whether this node is given state and results: a member, or a learner for whom there is room; who
// still asks after the job's end had a part in it.
bool JobCore::State::may_learn(const NodeId& node) const {
  const view::View& view = agreement.view();
  if (holds_result()) return true;
  if (!member) return false;
  if (view.rank_of(node)) return true;
  const auto found = joiners.find(node);
  return state_ready && found != joiners.end() && is_fresh(found->second) &&
         view.members.size() < options.wanted_nodes;
}

void JobCore::State::on_learner(Time at, const NodeId& from, const JobBody& body, Actions& out) {
  if (!may_learn(from)) return;
  StateSource::Effects effects;
  if (const auto* ask = std::get_if<StateAsk>(&body)) {
    // Frozen, there is no step to come for which all could make the same copy.
    // After the end nobody is helped by an older state that others still read.
    const bool result = holds_result() && ask->step == options.total_steps;
    const bool urgent = result || agreement.view().rank_of(from);
    if (result) offer_state(at, out);
    if (!urgent) source.forget_before(log.first_step(committed) - 1);
    const std::uint64_t step = agreement.frozen() ? committed : ask->step;
    source.on_ask(at, from, {step}, urgent, effects);
  }
  if (const auto* read = std::get_if<StateRead>(&body))
    source.on_read(at, from, *read, options.state_part_bytes, effects);
  if (const auto* read = std::get_if<ResultRead>(&body))
    log.on_read(from, *read, committed, options.state_part_bytes, effects.replies);
  carry_out(effects, out);
}

// The result of a step that is committed, and, by a test-only fault, of one that is only held.
void JobCore::State::keep_result(std::uint64_t step, const collective::SharedFloats& result,
                                 const Digest& digest,
                                 const collective::DataFingerprint& data_fingerprint) {
  StateSource::Effects effects;
  log.add({step, result, digest, data_fingerprint}, effects.replies);
  for (StateSource::Reply& one : effects.replies) queued.push_back(std::move(one));
  // Nobody may still lack it once every member has installed the view and made a step in it.
  const view::View& view = agreement.view();
  const bool begun = step > view.base_step;
  const bool learner = std::any_of(joiners.begin(), joiners.end(), [&](const auto& one) {
    return is_fresh(one.second) && !view.rank_of(one.first) &&
           view.members.size() < options.wanted_nodes;
  });
  const bool needed = (!begun || learner) && !broken("forgets_results");
  log.trim(needed ? options.results_kept_bytes : 0);
}

// Between two parts that a learner gets in the midst of a step. Of a large model few results are
// kept, so a learner would never come in unless, with each step, it gets that step's result and its
// share of the state: three gradients a step, from all members together.
Duration JobCore::State::pause_of_learners() const {
  const Duration usual = options.timings.give_way / kPartsEachWait;
  const std::uint64_t gradient = options.element_count * sizeof(float);
  if (usual_step == Duration{} || gradient * kResultsInHand <= options.results_kept_bytes)
    return usual;
  const std::uint64_t parts =
      1 + 3 * gradient / (agreement.view().members.size() * options.state_part_bytes);
  return std::min(usual, usual_step / static_cast<std::int64_t>(parts));
}

// What learners are owed, after everything that members are owed.
void JobCore::State::serve_learners(Time at, Actions& out) {
  const bool wanted = std::any_of(joiners.begin(), joiners.end(),
                                  [this](const auto& one) { return is_fresh(one.second); });
  if (finish_told && !wanted) log.trim(0);
  if (queued.size() > kMaxQueued) queued.resize(kMaxQueued);
  const bool busy = can_exchange() && exchange && !partials.empty() &&
                    agreement.view().members.size() > 1 && !broken("learners_go_first");
  while (!queued.empty()) {
    if (busy && at < served + pause_of_learners()) return;
    StateSource::Reply one = std::move(queued.front());
    queued.pop_front();
    send(one.to, std::move(one.body), out, true);
    served = at;
  }
}

}  // namespace gpunode::job
