#include "runtime/job/job_core.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {

// A message that was under way when its sender died must not bring it back to life.
constexpr Duration kVerdictHolds = std::chrono::milliseconds(200);
constexpr Duration kRefusalHolds = std::chrono::milliseconds(2000);
constexpr Duration kVainFor = std::chrono::seconds(10);   // from one break to another
constexpr Duration kCutHolds = std::chrono::seconds(60);  // then the link is tried again

view::Votes first_votes(const JobCore::Options& options) {
  view::Votes votes;
  if (!options.votes.empty()) {
    auto kept = view::decode_votes(options.votes);
    GPUNODE_CHECK(kept.has_value(), "create() has decoded the same bytes");
    return std::move(*kept);
  }
  votes.view.job = options.job;
  votes.view.acceptors = options.candidates;
  votes.view.tie = options.candidates.front();
  return votes;
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::outsider:
      return "outsider";
    case Phase::witness:
      return "witness";
    case Phase::learning:
      return "learning";
    case Phase::syncing:
      return "syncing";
    case Phase::running:
      return "running";
    case Phase::frozen:
      return "frozen";
    case Phase::paused:
      return "paused";
    case Phase::stopped:
      return "stopped";
    case Phase::done:
      return "done";
  }
  return "unknown";
}

JobCore::State::State(Options chosen)
    : options(std::move(chosen)),
      agreement({options.self.node, first_votes(options), options.timings.votes, options.seed,
                 [this](const auto& promisers, bool forced) { return compose(promisers, forced); },
                 [this] { return standing(); },
                 [this](const NodeId& node) { return suspected(node); }}) {
  decided = {agreement.view(), agreement.votes().decided_by};
  results = collective::FloatPool::create(options.element_count);
  form = collective::chunk_form_of(options.forms);
  state_digest = options.initial_state_digest;
  const bool candidate = std::find(options.candidates.begin(), options.candidates.end(),
                                   options.self.node) != options.candidates.end();
  wants_in =
      !options.witness_only && (candidate || decided.view.rank_of(options.self.node).has_value());
}

Result<JobCore> JobCore::create(Options options) {
  const auto bad = [](const char* what) { return Error{ErrorCode::invalid_argument, what}; };
  if (options.candidates.empty()) return bad("a job needs at least one candidate node");
  if (options.wanted_nodes == 0) return bad("a job needs at least one node: raise `nodes`");
  if (options.min_nodes > options.wanted_nodes) return bad("min_nodes is larger than nodes");
  if (!options.add) return bad("no function that adds");
  if (options.state_part_bytes == 0) return bad("state_part_bytes is zero");
  if (!options.votes.empty()) {
    auto votes = view::decode_votes(options.votes);
    if (!votes) return votes.error().within("job " + options.job.text());
    if (votes->view.job != options.job)
      return Error{ErrorCode::corrupted, "the vote file belongs to another job"};
  }
  JobCore core{std::make_unique<State>(std::move(options))};
  return core;
}

JobCore::JobCore(std::unique_ptr<State> state) : state_(std::move(state)) {}
JobCore::JobCore(JobCore&&) noexcept = default;
JobCore& JobCore::operator=(JobCore&&) noexcept = default;
JobCore::~JobCore() = default;

void JobCore::on_start(Time now, Actions& out) {
  State& state = *state_;
  state.now = state.phase_since = state.installed_at = state.step_began = now;
  // Forming; or a restart, after which this node's place in the view is void.
  // A stopped job stands still, unless somebody had begun to change that.
  const view::View& view = state.agreement.view();
  const bool stands =
      (view.stopped || view.is_witness(state.options.self.node)) && !state.agreement.frozen();
  if (state.agreement.view().is_acceptor(state.options.self.node) && !stands)
    state.agreement.want_change(now);
  // An earlier life of this acceptor may have granted a lease a moment ago.
  if (!state.options.votes.empty() && !broken("forgets_leases"))
    state.granted_until = now + state.options.timings.lease_term;
  state.tick(now, out);
}

void JobCore::on_tick(Time now, Actions& out) {
  state_->tick(now, out);
}

void JobCore::on_message(Time now, const NodeId& from, const JobMessage& message, Actions& out) {
  if (message.job != state_->options.job || from == state_->options.self.node) return;
  state_->now = now;
  state_->route(now, from, message, out);
  state_->serve_learners(now, out);
  state_->set_phase(now);
}

void JobCore::on_peer(Time now, const NodeId& peer, PeerState state, Actions& out) {
  if (peer == state_->options.self.node) return;
  state_->now = now;
  state_->peer_changed(now, peer, state, out);
}

void JobCore::on_bulk_reset(Time now, const NodeId& peer, Actions& out) {
  if (peer == state_->options.self.node) return;
  state_->now = now;
  state_->bulk_reset(now, peer, out);
  state_->set_phase(now);
}

void JobCore::on_persisted(Time now, std::uint64_t token, Actions& out) {
  state_->now = now;
  view::ViewAgreement::Effects effects;
  state_->agreement.on_persisted(now, token, effects);
  state_->carry_out(now, effects, out);
  state_->lease_tick(now, out);  // a view was installed a moment ago
  state_->set_phase(now);
}

void JobCore::on_partial(Time now, const PartialRange& range, Actions& out) {
  state_->now = now;
  state_->on_partial(now, range, out);
  state_->set_phase(now);
}

void JobCore::on_applied(Time now, std::uint64_t step, const Digest& digest, Actions& out) {
  state_->now = now;
  state_->on_applied(now, step, digest, out);
  state_->serve_learners(now, out);
  state_->set_phase(now);
}

void JobCore::on_state_read(Time now, std::uint64_t token, SharedBytes bytes, Actions& out) {
  state_->now = now;
  StateSource::Effects effects;
  state_->source.on_snapshot(now, token, std::move(bytes), effects);
  state_->carry_out(effects, out);
  state_->serve_learners(now, out);
}

void JobCore::on_state_installed(Time now, std::uint64_t step, Actions& out) {
  state_->now = now;
  state_->on_installed(now, step, out);
  state_->set_phase(now);
}

void JobCore::set_hints(std::vector<NodeId> nodes) {
  state_->hints = std::move(nodes);
}

void JobCore::request_join(Time now, Actions& out) {
  state_->wants_in = true;
  state_->leaving = state_->holding = false;
  state_->leave_by.reset();
  state_->left.erase(state_->options.self.node);
  state_->join_asked = Time{};
  state_->tick(now, out);
}

void JobCore::request_leave(Time now, Duration timeout, Actions& out) {
  state_->now = now;
  state_->begin_leave(now, timeout, out);
}

void JobCore::give_up(Time, const std::string& reason, Actions& out) {
  for (const NodeId& node : state_->peers_of(state_->agreement.view()))
    state_->send(node, FreezeHint{reason, {state_->options.self.node}}, out);
}

const view::View& JobCore::view() const {
  return state_->agreement.view();
}
JobStatus JobCore::status(Time now) const {
  return state_->status(now);
}
std::uint64_t JobCore::committed() const {
  return state_->committed;
}
collective::DataFingerprint JobCore::running_fingerprint() const {
  return state_->running;
}
Digest JobCore::state_digest() const {
  return state_->state_digest;
}

void JobCore::State::send(const NodeId& to, JobBody body, Actions& out, bool bulk) const {
  if (to == options.self.node) return;
  const view::View& view = agreement.view();
  out.push_back(Send{to, {options.job, view.name(), options.self.boot, std::move(body)}, bulk});
}

void JobCore::State::report(std::string text, Actions& out) const {
  out.push_back(Report{std::move(text)});
}

void JobCore::State::note_heard(Time at, const NodeId& from) {
  Peer& peer = peers[from];
  peer.heard = at;
  peer.unheard = false;
  if (at < peer.state_at + kVerdictHolds) return;
  peer.state = PeerState::alive;
  peer.doubted_until = Time{};
}

void JobCore::State::peer_changed(Time at, const NodeId& node, PeerState state, Actions& out) {
  Peer& peer = peers[node];
  // The detector is slower than a refused dial: its old word does not outweigh that.
  const bool stale = state == PeerState::alive && peer.state == PeerState::refused &&
                     at < peer.state_at + kRefusalHolds;
  if (stale) return;
  const bool back = state == PeerState::up || state == PeerState::alive;
  peer.state = back ? PeerState::alive : state;
  peer.state_at = back ? Time{} : at;
  if (back) peer.doubted_until = Time{};
  if (gone(node)) peer.vain_since.reset();
  if (state == PeerState::up) lose_learned(node);
  if (gone(node)) drop_source(node);
  const auto rank = agreement.view().rank_of(node);
  if (state == PeerState::up && rank && can_exchange()) {
    std::vector<collective::SendTo> sends;
    if (previous_exchange) previous_exchange->on_reconnected(at, *rank, sends);
    send_step(committed, sends, out);
    sends.clear();
    if (exchange) exchange->on_reconnected(at, *rank, sends);
    send_step(exchange_step, sends, out);
  }
  watch_members(at, out);
}

// Who has died, or is silent altogether, is the detector's case and breaks connections as well.
void JobCore::State::bulk_reset(Time at, const NodeId& node, Actions& out) {
  Peer& peer = peers[node];
  if (gone(node)) return peer.vain_since.reset();
  if (!peer.vain_since) peer.vain_since = at;
  const bool heard = at < peer.heard + options.timings.stall_alive;
  if (at < *peer.vain_since + kVainFor || !heard || !exchange || !can_exchange()) return;
  const auto rank = agreement.view().rank_of(node);
  const std::vector<std::uint16_t> awaited = exchange->waiting_for();
  if (!rank || std::find(awaited.begin(), awaited.end(), *rank) == awaited.end()) return;
  peer.vain_since.reset();
  peer.cut_until = at + kCutHolds;
  change_view(at,
              "the data connection to node " + node.short_text() +
                  " breaks again and again, and no bytes of the step come through",
              out);
}

void JobCore::State::route(Time at, const NodeId& from, const JobMessage& message, Actions& out) {
  note_heard(at, from);
  if (const auto* ask = std::get_if<JoinAsk>(&message.body)) on_join(at, from, message, *ask, out);
  if (const auto* offer = std::get_if<WitnessOffer>(&message.body))
    on_witness_offer(at, from, *offer, out);
  const view::View& view = agreement.view();
  const view::ViewName theirs = message.view, ours = view.name();
  const bool one_history = theirs.history == ours.history;
  if (const auto* notice = std::get_if<ViewNotice>(&message.body)) {
    // A job that is finished is not done again in another history.
    if (finish_told && !one_history) return answer_need(from, out);
    on_notice(at, from, *notice, out);
    return;
  }
  if (theirs.view_id >= peers[from].view.view_id) peers[from].view = theirs;
  if (theirs != ours && (is_about_result(from, message.body) || outlives_views(message)))
    on_learning(at, from, message.body, out);
  if (theirs != ours) {
    // Which of two histories goes before is for who knows both views: each side tells its own.
    const bool asks = std::holds_alternative<ViewAsk>(message.body);
    const auto* status = std::get_if<StepStatus>(&message.body);
    if (status && !one_history) on_foreign_status(at, from, *status, out);
    if (theirs.view_id <= ours.view_id || (!one_history && asks)) tell_view(at, from, out, asks);
    if (theirs.view_id < ours.view_id) return;
    keep_ahead(from, message);
    Peer& peer = peers[from];
    if (at >= peer.asked + std::chrono::milliseconds(50)) {
      peer.asked = at;
      send(from, ViewAsk{}, out);
    }
    return;
  }
  if (const auto* step = std::get_if<StepMessage>(&message.body)) on_step(at, from, *step, out);
  const auto* vote = std::get_if<Vote>(&message.body);
  if (vote && fits_job(vote->message)) {
    view::ViewAgreement::Effects effects;
    agreement.on_message(at, from, vote->message, effects);
    carry_out(at, effects, out);
  }
  if (std::holds_alternative<ViewAsk>(message.body)) answer_need(from, out);
  if (const auto* hint = std::get_if<FreezeHint>(&message.body)) on_hint(at, from, *hint, out);
  if (const auto* status = std::get_if<StepStatus>(&message.body)) {
    on_source(at, from, *status, out);
    on_status(at, from, *status, out);
  }
  if (const auto* ask = std::get_if<LeaseAsk>(&message.body))
    on_lease_ask(at, from, message, *ask, out);
  if (const auto* grant = std::get_if<LeaseGrant>(&message.body))
    on_lease_grant(at, from, *grant, out);
  if (const auto* refused = std::get_if<JoinRefused>(&message.body))
    report("node " + from.short_text() + " does not take this node in: " + refused->reason, out);
  on_learning(at, from, message.body, out);
}

void JobCore::State::on_learning(Time at, const NodeId& from, const JobBody& body, Actions& out) {
  if (on_copy(at, from, body, out) || give_copy(at, from, body, out)) return;
  if (const auto* meta = std::get_if<StateMeta>(&body)) on_offer(at, from, *meta, out);
  if (const auto* part = std::get_if<ResultPart>(&body)) on_result(at, from, *part, out);
  if (const auto* part = std::get_if<StatePart>(&body); part && fetch) {
    StateFetch::Effects effects;
    fetch->on_part(at, from, *part, effects);
    carry_out(at, effects, out);
  }
  on_learner(at, from, body, out);
}

void JobCore::State::tick(Time at, Actions& out) {
  now = at;
  view::ViewAgreement::Effects effects;
  agreement.on_tick(at, effects);
  carry_out(at, effects, out);
  copies_tick(at, out);
  lease_tick(at, out);
  watch_work(at, out);
  watch_members(at, out);
  watch_wish(at, out);
  source.on_tick(at);
  learn_tick(at, out);
  result_tick(at, out);
  join_tick(at, out);
  witness_tick(at, out);
  ask_tick(at, out);
  gossip_tick(at, out);
  if (fetch && member) tick_fetch(at, out);
  maybe_begin(at, out);
  if (can_exchange() && exchange) {
    std::vector<collective::SendTo> sends;
    exchange->on_tick(at, sends);
    send_step(exchange_step, sends, out);
    advance(at, out);
  }
  tell_stopped(out);
  watch_stall(at, out);
  finish_tick(at, out);
  release_gradients(at);
  leave_tick(at, out);
  serve_learners(at, out);
  set_phase(at);
  const bool changing = agreement.frozen() || agreement.wanted();
  const bool stuck = changing && at >= phase_since + options.timings.pause_after;
  if (stuck && !pause_told && phase == Phase::frozen) {
    pause_told = true;
    out.push_back(Paused{agreement.waiting_reason()});
    set_phase(at);
  }
  watch_lost_quorum(at, out);
}

void JobCore::State::set_phase(Time at) {
  Phase next = Phase::running;
  if (agreement.frozen() || agreement.wanted())
    next = pause_told ? Phase::paused : Phase::frozen;
  else if (!member)
    next = agreement.view().is_witness(options.self.node) ? Phase::witness
           : fetch || following || installing             ? Phase::learning
                                                          : Phase::outsider;
  else if (!state_ready)
    next = Phase::syncing;
  else if (committed >= options.total_steps)
    next = Phase::done;
  else if (agreement.view().stopped)
    next = Phase::stopped;
  if (next == phase) return;
  if (next != Phase::paused) phase_since = at;
  phase = next;
}

JobStatus JobCore::State::status(Time at) const {
  JobStatus status;
  const view::View& view = agreement.view();
  status.phase = phase;
  status.view_id = view.view_id;
  status.committed = committed;
  status.reported = may_report(at) ? committed : reported;
  status.needs_lease = needs_lease();
  status.durable = durable;
  status.holders = static_cast<std::uint32_t>(holders_of(durable.name).size());
  status.total_steps = options.total_steps;
  status.in_phase = at - phase_since;
  status.reason = agreement.waiting_reason();
  status.generation = view.generation();
  status.stopped = view.stopped;
  status.stop_told = view.stopped && (stop_told || !member);
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node)) status.witnesses.push_back(node);
  for (const view::Member& one : view.members) status.members.push_back(one.node);
  if (exchange && member)
    for (const std::uint16_t rank : exchange->waiting_for())
      if (rank < view.members.size() && view.members[rank].node != options.self.node)
        status.waiting_for.push_back(view.members[rank].node);
  if (agreement.frozen() || agreement.wanted()) status.waiting_for = agreement.missing();
  status.stall = longest_wait(at);
  if (!status.stall && stall_told)  // frozen because of it: it ends with the next view
    status.stall = Stall{stall_told->node, stall_told->lack, at - stalled_since};
  if (fetch) {
    status.waiting_for = fetch->sources();
    status.sync_total_bytes = fetch->meta() ? fetch->meta()->size_bytes : 0;
  }
  status.sync_received_bytes = learned_bytes();
  status.sync_results = learned_results;
  status.sync_behind = told_committed > committed && !state_ready ? told_committed - committed : 0;
  status.sync_time = learn_began ? at - *learn_began : learned_time;
  return status;
}

}  // namespace gpunode::job
