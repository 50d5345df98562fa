// Copies of a small job's checkpoints on its witnesses, so that the job outlives its members.
// Members offer their newest one with each wish for a lease; a witness fetches it as a learner
// fetches a state, and makes it durable on its own disk. Nobody waits for it: one is on its way at
// a time, the next is offered when all witnesses have this one, or nobody reads it any more.
#include <algorithm>

#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kNoProgress = std::chrono::seconds(5);
constexpr Duration kWriteTakes = std::chrono::seconds(30);  // then another one is tried
}  // namespace

void JobCore::on_saved_read(Time now, std::uint64_t token, SharedBytes bytes, Actions& out) {
  State& state = *state_;
  state.now = now;
  if (bytes.empty()) return state.end_copies(true);  // offered anew, and read when asked for
  StateSource::Effects effects;
  state.copies.on_snapshot(now, token, std::move(bytes), effects);
  state.carry_out_copy(effects, out);
  state.serve_learners(now, out);
}

void JobCore::set_checkpoint(const Checkpoint& checkpoint) {
  Checkpoint& newest = state_->options.checkpoint;
  // One of a history that was given up counts for nothing, however late its step.
  const bool counts = state_->agreement.view().descends_from(newest.history, newest.step);
  if (checkpoint.name() >= newest.name() || !counts) newest = checkpoint;
  state_->lease_asked = Time{};  // ask at once who else has it
  if (state_->copy_written && newest.name() >= state_->copy_name) state_->copy_written.reset();
}

void JobCore::on_checkpoint_lost(Time now, const view::CheckpointName& lost,
                                 const Checkpoint& newest_intact, Actions& out) {
  State& state = *state_;
  state.now = now;
  state.options.checkpoint = newest_intact;
  if (state.offered.name() == lost) state.end_copies(true);
  if (!state.restoring || state.restoring->step == 0 || state.restoring->step != lost.step) return;
  state.restoring.reset();
  state.change_view(
      now, "the checkpoint of step " + std::to_string(lost.step) + " on this node is damaged", out);
}

std::optional<HistoryId> JobCore::state_history() const {
  if (!state_->is_of_history()) return std::nullopt;
  return state_->history;
}

void JobCore::State::end_copies(bool void_history) {
  copy_fetch.reset();
  if (!void_history) return;
  copies.clear();
  offered = {};
}

void JobCore::State::copies_tick(Time at, Actions& out) {
  copies.on_tick(at);
  if (member && needs_lease() && options.checkpoint.name() > offered.name()) {
    const view::View& view = agreement.view();
    const bool all_have_it =
        std::all_of(view.acceptors.begin(), view.acceptors.end(), [&](const NodeId& node) {
          const auto found = grants.find(node);
          return !view.is_witness(node) ||
                 (found != grants.end() && found->second.checkpoint >= offered.name());
        });
    if (offered.step == 0 || all_have_it || !copies.is_busy(at)) {
      offered = options.checkpoint;
      StateSource::Effects effects;
      copies.set_current(at, {offered.step, 0, offered.state_digest, {}, offered.running}, effects);
      carry_out_copy(effects, out);
      lease_asked = Time{};  // tell them now
    }
  }
  if (!copy_fetch) return;
  if (copy_fetch->received_bytes() != copy_bytes) copy_progress = at;
  copy_bytes = copy_fetch->received_bytes();
  const bool vain = at >= copy_progress + kNoProgress;
  if (vain || member || agreement.frozen()) return copy_fetch.reset();
  StateFetch::Effects effects;
  copy_fetch->on_tick(at, effects);
  carry_out_copy(at, effects, out);
}

// A member tells of a checkpoint that this witness has not got.
void JobCore::State::on_copy_offer(Time at, const LeaseAsk& ask, Actions& out) {
  if (options.witness_only || member || agreement.frozen() || copy_fetch || fetch) return;
  if (ask.checkpoint <= options.checkpoint.name() || ask.checkpoint.step == 0) return;
  if (copy_written && at < *copy_written + kWriteTakes) return;
  StateFetch::Options chosen;
  chosen.step = ask.checkpoint.step;
  chosen.state_digest = ask.digest;
  for (const view::Member& one : agreement.view().members) chosen.sources.push_back(one.node);
  chosen.max_bytes = options.max_state_bytes;
  chosen.part_bytes = options.state_part_bytes;
  copy_fetch.emplace(std::move(chosen));
  copy_name = ask.checkpoint;
  copy_progress = at;
  copy_bytes = 0;
  copies_tick(at, out);
}

// Whether that belongs to the copy that is on its way here, and to nothing else.
bool JobCore::State::on_copy(Time at, const NodeId& from, const JobBody& body, Actions& out) {
  if (!copy_fetch) return false;
  StateFetch::Effects effects;
  const auto* meta = std::get_if<StateMeta>(&body);
  const auto* part = std::get_if<StatePart>(&body);
  const std::uint64_t step = copy_fetch->step();
  const bool mine = (meta && meta->step == step) || (part && part->step == step);
  if (!mine) return false;
  if (meta) copy_fetch->on_meta(at, from, *meta, effects);
  if (part) copy_fetch->on_part(at, from, *part, effects);
  carry_out_copy(at, effects, out);
  return !fetch;
}

// Whether a witness has asked for the checkpoint that is offered, and is served.
bool JobCore::State::give_copy(Time at, const NodeId& from, const JobBody& body, Actions& out) {
  if (!member || !needs_lease() || !agreement.view().is_witness(from)) return false;
  StateSource::Effects effects;
  const auto* ask = std::get_if<StateAsk>(&body);
  const bool asked = ask && ask->step == offered.step && offered.step > 0;
  if (asked)
    copies.on_ask(at, from, *ask, true, effects);
  else if (const auto* read = std::get_if<StateRead>(&body))
    copies.on_read(at, from, *read, options.state_part_bytes, effects);
  const bool served = asked || !effects.replies.empty();
  carry_out_copy(effects, out);
  return served;
}

void JobCore::State::carry_out_copy(StateSource::Effects& effects, Actions& out) {
  reply(effects.replies, out);
  if (effects.read_token) out.push_back(ReadSaved{*effects.read_token, offered.step});
}

void JobCore::State::carry_out_copy(Time at, StateFetch::Effects& effects, Actions& out) {
  for (StateSource::Reply& one : effects.sends) send(one.to, std::move(one.body), out);
  if (!effects.report.empty()) report(std::move(effects.report), out);
  if (!effects.complete) return;
  const StateMeta meta = *copy_fetch->meta();
  copy_fetch.reset();
  copy_written = at;
  out.push_back(KeepCopy{{copy_name.step, meta.digest, meta.data_fingerprint, copy_name.history},
                         std::move(*effects.complete)});
}

}  // namespace gpunode::job
