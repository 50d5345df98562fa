#include "runtime/job/copies.hpp"

#include <algorithm>

namespace gpunode::job {

namespace {
constexpr Duration kNoProgress = std::chrono::seconds(5);
constexpr Duration kNothing = std::chrono::seconds(60);  // of what is offered, and nothing newer is
constexpr Duration kWriteTakes = std::chrono::seconds(30);  // then another one is tried
}  // namespace

bool Copies::offer_tick() {
  source_.on_tick(job_.now);
  if (!job_.member || !job_.needs_lease() || job_.checkpoint.name() <= offered_.name())
    return false;
  const view::View& view = job_.view();
  const bool all_have_it =
      std::all_of(view.acceptors.begin(), view.acceptors.end(), [&](const NodeId& node) {
        return !view.is_witness(node) || durability_.is_told_by(node, offered_.name());
      });
  if (offered_.step != 0 && !all_have_it && is_read()) return false;
  offer();
  return true;
}

// Nobody waits for it: only what is offered is asked of the source.
void Copies::offer() {
  offered_ = job_.checkpoint;
  StateSource::Effects none;
  source_.set_current(job_.now, {offered_.step, 0, offered_.state_digest, {}, offered_.running},
                      none);
}

bool Copies::on_question(const NodeId& from, const JobBody& body,
                         std::vector<StateSource::Reply>& replies, Actions& out) {
  // A member gives it to witnesses; who is outside, to members that go on from it.
  const view::View& view = job_.view();
  const bool gives =
      job_.member ? job_.needs_lease() && view.is_witness(from) : view.rank_of(from).has_value();
  if (!gives) return false;
  StateSource::Effects effects;
  const auto* ask = std::get_if<StateAsk>(&body);
  const Checkpoint& kept = job_.checkpoint;
  if (!job_.member && ask && kept.step > 0 && ask->digest == kept.state_digest &&
      offered_.name() != kept.name())
    offer();
  const bool asked = ask && offered_.step > 0 && ask->step == offered_.step &&
                     ask->digest == offered_.state_digest;
  if (asked)
    source_.on_ask(job_.now, from, *ask, true, effects);
  else if (const auto* read = std::get_if<StateRead>(&body))
    source_.on_read(job_.now, from, *read, job_.options.state_part_bytes, effects);
  const bool served = asked || !effects.replies.empty();
  carry_out(effects, replies, out);
  return served;
}

void Copies::on_saved_read(std::uint64_t token, SharedBytes state,
                           std::vector<StateSource::Reply>& replies) {
  if (state.empty()) return on_history();  // offered anew, and read when asked for
  StateSource::Effects effects;
  source_.on_snapshot(job_.now, token, std::move(state), effects);
  replies = std::move(effects.replies);
}

void Copies::carry_out(StateSource::Effects& effects, std::vector<StateSource::Reply>& replies,
                       Actions& out) const {
  for (StateSource::Reply& one : effects.replies) replies.push_back(std::move(one));
  if (effects.read_token) out.push_back(ReadSaved{*effects.read_token, offered_.step});
}

// A member tells of a checkpoint that this witness has not got.
void Copies::on_offer(const LeaseAsk& ask, bool learns, Actions& out) {
  if (job_.options.witness_only || job_.member || job_.agreement.frozen() || learns ||
      job_.takes_result)
    return;
  // What cannot be would take the place of what is: a later name makes way for an older one.
  if (!job_.may_be(ask.checkpoint)) return;
  // Nobody may have the older one any more: it has not begun to come, or comes no further.
  if (fetch_ && ask.checkpoint > name_ &&
      (!fetch_->meta() || job_.now >= fetch_->progressed() + kNoProgress))
    fetch_.reset();
  if (fetch_) return;
  if (ask.checkpoint <= job_.newest_on_disk().name() || ask.checkpoint.step == 0) return;
  if (written_ && job_.now < *written_ + kWriteTakes) return;
  fetch_.emplace(job_.fetch_of(ask.checkpoint.step, ask.digest, job_.other_members()));
  name_ = ask.checkpoint;
  fetch_tick(out);
}

void Copies::fetch_tick(Actions& out) {
  if (!fetch_) return;
  // The result is that state as well or a newer one: both at once would share one uplink.
  if (job_.takes_result) return fetch_.reset();
  // What is begun anew is sent once more, to the cost of all that wait for the same uplink.
  const bool vain = job_.now >= fetch_->progressed() + (fetch_->meta() ? kNothing : kNoProgress);
  if (vain || job_.member || job_.agreement.frozen()) return fetch_.reset();
  StateFetch::Effects effects;
  fetch_->on_tick(job_.now, effects);
  carry_out(effects, out);
}

void Copies::on_message(const NodeId& from, const JobBody& body, Actions& out) {
  if (!fetch_) return;
  StateFetch::Effects effects;
  fetch_->on_message(job_.now, from, body, effects);
  carry_out(effects, out);
}

void Copies::carry_out(StateFetch::Effects& effects, Actions& out) {
  job_.pass_on(effects, out);
  if (!effects.complete) return;
  const StateMeta meta = *fetch_->meta();
  fetch_.reset();
  written_ = job_.now;
  out.push_back(KeepCopy{{name_.step, meta.digest, meta.data_fingerprint, name_.history},
                         std::move(*effects.complete)});
}

void Copies::on_reconnected(const NodeId& node) {
  if (fetch_) fetch_->lose(node);
}

void Copies::on_written() {
  if (written_ && job_.newest_on_disk().name() >= name_) written_.reset();
}

void Copies::on_lost(const view::CheckpointName& name) {
  if (offered_.name() == name) on_history();
}

void Copies::on_history() {
  fetch_.reset();
  source_.clear();
  offered_ = {};
}

}  // namespace gpunode::job
