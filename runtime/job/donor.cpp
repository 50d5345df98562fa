#include "runtime/job/donor.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr int kPartsEachWait = 4;  // 1 MiB each give_way: 10 MiB a second, however busy the links
constexpr std::uint64_t kResultsInHand = 16;  // kept results of which a learner has time to come in
constexpr std::size_t kMaxQueued = 4096;      // parts; beyond it they are lost
}  // namespace

void Donor::offer(Actions& out) {
  const Progress& here = job_.progress;
  const bool gives = (job_.member && job_.state_ready) || job_.holds_result();
  if (!job_.is_applied() || !gives) return;
  StateSource::Effects effects;
  source_.set_current(
      job_.now, {here.committed(), 0, here.state_digest(), here.result_digest(), here.running()},
      effects);
  carry_out(effects, out);
}

// Whether this node gives state and results to that one: a member, or a learner for whom there is
// room; who still asks after the job's end had a part in it.
bool Donor::may_learn(const NodeId& node) const {
  if (job_.holds_result()) return true;
  if (!job_.member) return false;
  if (job_.view().rank_of(node)) return true;
  return job_.state_ready && job_.has_room() && joiners_.is_fresh(node);
}

void Donor::on_message(const NodeId& from, const JobBody& body, Actions& out) {
  if (!may_learn(from)) return;
  StateSource::Effects effects;
  if (const auto* ask = std::get_if<StateAsk>(&body)) {
    // After the end nobody is helped by an older state that others still read.
    const bool result = job_.holds_result() && ask->step == job_.options.total_steps;
    const bool urgent = result || job_.view().rank_of(from);
    if (result) offer(out);
    if (!urgent) source_.forget_before(results_from() - 1);
    // Frozen, there is no step to come for which all could make the same copy.
    StateAsk wanted = *ask;
    if (job_.agreement.frozen() && ask->digest == Digest{}) wanted.step = job_.progress.committed();
    source_.on_ask(job_.now, from, wanted, urgent, effects);
  }
  if (const auto* read = std::get_if<StateRead>(&body))
    source_.on_read(job_.now, from, *read, job_.options.state_part_bytes, effects);
  if (const auto* read = std::get_if<ResultRead>(&body))
    log_.on_read(from, *read, job_.progress.committed(), job_.options.state_part_bytes,
                 effects.replies);
  carry_out(effects, out);
}

void Donor::on_state_read(std::uint64_t token, SharedBytes state, Actions& out) {
  StateSource::Effects effects;
  source_.on_snapshot(job_.now, token, std::move(state), effects);
  carry_out(effects, out);
}

void Donor::keep_result(std::uint64_t step, const collective::SharedFloats& result,
                        const Digest& digest, const collective::DataFingerprint& data_fingerprint) {
  StateSource::Effects effects;
  log_.add({step, result, digest, data_fingerprint}, effects.replies);
  for (StateSource::Reply& one : effects.replies) queued_.push_back(std::move(one));
  // Nobody may still lack it once every member has installed the view and made a step in it.
  const bool begun = step > job_.view().base_step;
  const bool needed = (!begun || joiners_.has_learner()) && !broken("forgets_results");
  log_.trim(needed ? job_.options.results_kept_bytes : 0);
}

void Donor::forget_all() {
  source_.clear();
  log_.clear();
  queued_.clear();
}

void Donor::reply(std::vector<StateSource::Reply>& replies, Actions& out) {
  for (StateSource::Reply& one : replies) {
    if (std::holds_alternative<StateMeta>(one.body))
      job_.send(one.to, std::move(one.body), out);
    else
      queued_.push_back(std::move(one));
  }
}

void Donor::carry_out(StateSource::Effects& effects, Actions& out) {
  reply(effects.replies, out);
  if (effects.read_token) out.push_back(ReadState{*effects.read_token, job_.progress.committed()});
}

// Between two parts that a learner gets in the midst of a step. Of a large model few results are
// kept, so a learner would never come in unless, with each step, it gets that step's result and its
// share of the state: three gradients a step, from all members together.
Duration Donor::pause(Duration usual_step) const {
  const JobCore::Options& options = job_.options;
  const Duration usual = options.timings.give_way / kPartsEachWait;
  const std::uint64_t gradient = options.element_count * sizeof(float);
  if (usual_step == Duration{} || gradient * kResultsInHand <= options.results_kept_bytes)
    return usual;
  const std::uint64_t parts =
      1 + 3 * gradient / (job_.view().members.size() * options.state_part_bytes);
  return std::min(usual, usual_step / static_cast<std::int64_t>(parts));
}

void Donor::serve(bool busy, Duration usual_step, Actions& out) {
  if (job_.finished && !joiners_.anyone_asks()) log_.trim(0);
  if (queued_.size() > kMaxQueued) queued_.resize(kMaxQueued);
  while (!queued_.empty()) {
    if (busy && job_.now < served_ + pause(usual_step)) return;
    StateSource::Reply one = std::move(queued_.front());
    queued_.pop_front();
    job_.send(one.to, std::move(one.body), out, true);
    served_ = job_.now;
  }
}

}  // namespace gpunode::job
