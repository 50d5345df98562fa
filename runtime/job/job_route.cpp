// Which part of the core each input is for, and what one part says that others need to know.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"
#include "runtime/job/speakers.hpp"

namespace gpunode::job {

void JobCore::State::on_peer(const NodeId& node, PeerHealth health, Actions& out) {
  if (!job.peers.on_health(job.now, node, health)) return;
  if (job.gone(node)) learner.on_gone(node);
  watch_members(out);
}

void JobCore::State::on_link(const NodeId& node, LinkState state, Actions& out) {
  job.peers.on_link(job.now, node, state);
  if (state == LinkState::up) {
    learner.on_reconnected(node);
    ending.on_reconnected(node);
    copies.on_reconnected(node);
  }
  if (job.gone(node)) learner.on_gone(node);
  const auto rank = job.view().rank_of(node);
  if (state == LinkState::up && rank && job.can_exchange()) steps.on_reconnected(*rank, out);
  watch_members(out);
}

void JobCore::State::on_bulk_reset(const NodeId& node, Actions& out) {
  if (!job.peers.breaks_in_vain(job.now, node, job.options.timings.stall_alive)) return;
  const auto& exchange = steps.exchange();
  const auto rank = job.view().rank_of(node);
  if (!rank || !exchange || !job.can_exchange()) return;
  const std::vector<std::uint16_t> awaited = exchange->waiting_for();
  if (std::find(awaited.begin(), awaited.end(), *rank) == awaited.end()) return;
  job.peers.cut(job.now, node);
  change_view("the data connection to node " + node.short_text() +
                  " breaks again and again, and no bytes of the step come through",
              out);
}

void JobCore::State::route(const NodeId& from, const JobMessage& message, Actions& out) {
  job.peers.on_message(job.now, from);
  if (const auto* ask = std::get_if<JoinAsk>(&message.body)) on_join(from, message, *ask, out);
  if (const auto* offer = std::get_if<WitnessOffer>(&message.body)) {
    if (offer->leaves) joiners.forget(from);
    if (!witnesses.on_offer(from, *offer)) answer(from, out);
  }
  const view::ViewName theirs = message.view, ours = job.view().name();
  const bool one_history = theirs.history == ours.history;
  const bool heard = may_speak(from, message);
  if (!heard) job.peers.on_unheard();
  if (const auto* notice = std::get_if<ViewNotice>(&message.body)) {
    // A job that is finished is not done again in another history.
    return job.finished && !one_history ? answer(from, out) : on_notice(from, *notice, out);
  }
  const auto* ask = std::get_if<ViewAsk>(&message.body);
  if (ask && parts_from(*ask)) return news.tell_newest(from, out);
  news.on_message(from, theirs);
  if (heard) route_state(from, message, out);
  if (theirs == ours) return heard ? route_in_view(from, message, out) : void();
  // Which of two histories goes before is for who knows both views: each side tells its own.
  const auto* status = std::get_if<StepStatus>(&message.body);
  if (status && heard && !one_history) on_status(from, theirs.history, *status, out);
  if (ask) news.on_ask(from, *ask);
  if (theirs.view_id <= ours.view_id || (!one_history && ask)) news.tell(from, ask != nullptr, out);
  if (theirs.view_id < ours.view_id) return;
  if (heard) steps.keep_early(from, message);
  news.ask(from, out);
}

// By the table of speakers.hpp.
bool JobCore::State::may_speak(const NodeId& from, const JobMessage& message) const {
  if (broken("hears_strangers")) return true;
  const view::View& view = job.view();
  const Speaker needed = speaker_of(message.body);
  const bool is_partner = job.peers.had_part(from) || view.gives(from);
  switch (message.view != view.name() && needed > Speaker::partner ? Speaker::asker : needed) {
    case Speaker::anyone:
      return true;
    case Speaker::asker:
      return is_partner || joiners.is_fresh(from);
    case Speaker::partner:
      return is_partner;
    case Speaker::part:
      return view.has_part(from);
    case Speaker::member:
      return view.rank_of(from).has_value();
    case Speaker::voter:
      return view.is_acceptor(from);
  }
  return false;
}

// States have their digest for a name, results the step of a history: what is under way to a
// learner, and what it asks for, stays good when the view changes. A slow link is full of it.
void JobCore::State::route_state(const NodeId& from, const JobMessage& message, Actions& out) {
  const JobBody& body = message.body;
  const bool one_view = message.view == job.view().name();
  const bool one_history = message.view.history == job.view().history();
  if (const auto* meta = std::get_if<StateMeta>(&body))
    learner.on_offer(from, message.view.history, *meta, out);
  if (const auto* part = std::get_if<StatePart>(&body)) learner.on_part(from, *part, out);
  if (const auto* part = std::get_if<ResultPart>(&body); part && one_history)
    learner.on_result(from, *part, out);
  ending.on_message(from, body, out);
  copies.on_message(from, body, out);

  const auto* ask = std::get_if<StateAsk>(&body);
  const bool reads_result = std::holds_alternative<ResultRead>(body);
  const bool is_question = ask || reads_result || std::holds_alternative<StateRead>(body);
  const bool named =
      (!ask || ask->digest != Digest{} || one_view) && (!reads_result || one_history);
  if (is_question && named) {
    std::vector<StateSource::Reply> replies;
    const bool in_memory = ask && job.holds_result() && ask->digest == job.progress.state_digest();
    if (!in_memory && copies.on_question(from, body, replies, out))
      donor.reply(replies, out);
    else
      donor.on_message(from, body, out);
  }
  load_what_came(out);
}

void JobCore::State::route_in_view(const NodeId& from, const JobMessage& message, Actions& out) {
  if (const auto* step = std::get_if<StepMessage>(&message.body)) on_step(from, *step, out);
  const auto* vote = std::get_if<Vote>(&message.body);
  const auto* promise = vote ? std::get_if<view::Promise>(&vote->message) : nullptr;
  if (promise && promise->standing.order && !counts(*promise->standing.order))
    job.peers.on_refused_order();
  if (vote && fits_job(vote->message)) {
    view::ViewAgreement::Effects effects;
    job.agreement.on_message(job.now, from, vote->message, effects);
    carry_out(effects, out);
  }
  if (std::holds_alternative<ViewAsk>(message.body)) answer(from, out);
  if (const auto* hint = std::get_if<FreezeHint>(&message.body)) on_hint(from, *hint, out);
  if (const auto* status = std::get_if<StepStatus>(&message.body))
    on_status(from, message.view.history, *status, out);
  if (const auto* ask = std::get_if<LeaseAsk>(&message.body))
    on_lease_ask(from, message.boot, *ask, out);
  if (const auto* grant = std::get_if<LeaseGrant>(&message.body)) on_lease_grant(from, *grant, out);
  if (const auto* invite = std::get_if<GroupInvite>(&message.body))
    steps.link().on_message(from, *invite, out);
  const auto* refused = std::get_if<JoinRefused>(&message.body);
  if (refused && job.view().rank_of(from) && news.tells_refusal())
    job.report("node " + from.short_text() + " does not take this node in: " + refused->reason,
               out);
}

void JobCore::State::on_join(const NodeId& from, const JobMessage& message, const JoinAsk& ask,
                             Actions& out) {
  const view::View& view = job.view();
  const bool same_view = message.view == view.name();
  if (std::find(view.put_out.begin(), view.put_out.end(), from) != view.put_out.end())
    return job.send(from, JoinRefused{"it has voted twice and was put out of the job"}, out);
  const Joiners::Answer noted = joiners.on_join(from, message.boot, same_view, ask, out);
  if (noted == Joiners::Answer::old || noted == Joiners::Answer::refused) return;
  if (noted == Joiners::Answer::new_life) job.peers.on_bytes(from);  // it dials anew
  witnesses.on_back(from);
  if (job.holds_result()) return answer(from, out);
  if (!job.member) return;
  if (job.is_last_step() || same_view) answer(from, out);
  const auto rank = view.rank_of(from);
  if (job.is_last_step() || !rank || view.stopped) return;  // it comes back with a resumed job
  const Boot known = view.members[*rank].boot;
  const bool lost_it = message.boot == known && ask.outside && same_view;
  if (message.boot > known || lost_it)
    change_view("node " + from.short_text() + " came back without its state", out);
}

void JobCore::State::on_status(const NodeId& from, const HistoryId& history,
                               const StepStatus& status, Actions& out) {
  if (history == job.view().history()) {
    if (status.state_ready && status.committed >= job.view().base_step) news.on_ready(from);
    learner.on_status(from, status, out);
    load_what_came(out);
  }
  switch (ending.on_status(from, history, status, out)) {
    case Ending::Heard::nothing:
      return;
    case Ending::Heard::member_is:
      return ending.tell(is_certain(), out);
    case Ending::Heard::fetches:
      learner.drop();
      [[fallthrough]];
    case Ending::Heard::is_through:
      if (job.member) change_view("the job is finished elsewhere", out);
      break;
  }
}

// Nobody else can have gone on without the last step.
bool JobCore::State::is_certain() const {
  return job.can_exchange() && (!job.needs_lease() || lease.reported() >= job.progress.committed());
}

// Whoever asks learns at least that this node lives, and where it is.
void JobCore::State::answer(const NodeId& from, Actions& out) const {
  job.send(from, ending.status(donor.results_from()), out);
}

void JobCore::State::on_lease_ask(const NodeId& from, Boot boot, const LeaseAsk& ask,
                                  Actions& out) {
  if (!job.view().has_member({from, boot})) return;
  const std::optional<LeaseGrant> grant = lease.on_ask(ask);
  if (!grant) return;
  job.send(from, *grant, out);
  if (job.needs_lease()) copies.on_offer(ask, learner.fetch().has_value(), out);
}

void JobCore::State::on_lease_grant(const NodeId& from, const LeaseGrant& grant, Actions& out) {
  if (!lease.on_grant(from, grant)) return;
  durability.on_told(from, grant);
  note_durable(out);
  if (job.needs_lease() && lease.holds()) advance(out);
}

void JobCore::State::note_durable(Actions& out) {
  std::optional<view::Floor> floor = durability.to_note(witnesses.spare_count());
  if (!floor) return;
  view::ViewAgreement::Effects effects;
  job.agreement.note_floor(job.now, std::move(*floor), effects);
  carry_out(effects, out);
}

void JobCore::State::lease_tick(Actions& out) {
  note_durable(out);
  const Checkpoint& offered = job.needs_lease() ? copies.offered() : job.checkpoint;
  const auto why = lease.on_tick(offered, !durability.is_durable(job.checkpoint), out);
  if (why) change_view(*why, out);
}

void JobCore::State::leave_tick(Actions& out) {
  if (!leaver.leaves()) return;
  Leaver::Facts facts;
  facts.stuck = paused_for.any();
  facts.somebody_comes = joiners.somebody_comes();
  facts.step_time = steps.step_time();
  facts.durable = durability.is_durable(job.checkpoint);
  facts.copies = std::max<std::size_t>(durability.floor().holders.size(), 1) - 1;
  facts.copies_read = copies.is_read();
  facts.others_know = news.all_know();
  switch (leaver.on_tick(facts, out)) {
    case Leaver::Ask::nothing:
      return;
    case Leaver::Ask::end_view:
      return change_view("this node leaves", out);
    case Leaver::Ask::want_change:
      return job.agreement.want_change(job.now);
    case Leaver::Ask::tell_it_leaves:
      return job.send_all(WitnessOffer{true}, out);
    case Leaver::Ask::ask_members:
      return news.ask_members(out);
  }
}

// A member whose own work hangs takes itself out, so that the others need not wait: its core
// answers them, so nobody else would find it out.
void JobCore::State::watch_work(Actions& out) {
  const auto hang = watchdog.on_tick(job.now);
  if (!hang || job.work_lost || broken("no_watchdog")) return;
  out.push_back(Report{hang->text(), {}, true});
  const view::View& view = job.view();
  const bool alone = view.members.size() <= 1 && view.acceptors.size() <= 1;
  if (!job.member || alone || job.is_last_step()) return;
  job.work_lost = true;
  job.send_all(FreezeHint{hang->text(), {job.self()}}, out);
  job.agreement.want_change(job.now);
}

void JobCore::State::work_came_back(Actions& out) {
  if (!job.work_lost || watchdog.hangs()) return;
  job.work_lost = false;
  job.report("what had not answered is back: this node asks to come in again", out);
  job.wants_in = job.wants_in || !leaver.leaves();
}

void JobCore::State::serve_learners(Actions& out) {
  const bool busy = job.can_exchange() && steps.under_way() && steps.has_partials() &&
                    job.view().members.size() > 1 && !broken("learners_go_first");
  donor.serve(busy, stalls.usual_step(), out);
}

}  // namespace gpunode::job
