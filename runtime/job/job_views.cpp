// View changes: when one is wanted, what this node tells about itself, who is let in, and what a
// decided view means for this node.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kDoubtHolds = std::chrono::milliseconds(2000);
constexpr Duration kHeardLately = std::chrono::milliseconds(100);
constexpr Duration kTellEvery = std::chrono::milliseconds(100);
constexpr Duration kHeardFor = std::chrono::seconds(10);
constexpr Duration kLoadsFor = std::chrono::seconds(60);  // more than usual, from a disk
constexpr Duration kSyncStall = std::chrono::seconds(20);
constexpr Duration kRefusedFor = std::chrono::seconds(5);
constexpr Duration kBarredFor = std::chrono::seconds(30);
constexpr std::size_t kMaxUnreachable = 4096;

bool same_or_unknown(const Digest& left, const Digest& right) {
  return left == right || left == Digest{} || right == Digest{};
}
}  // namespace

view::Standing JobCore::State::standing() const {
  if (agreement.view().view_id == 0) fault_point("forming", 0);
  view::Standing where;
  where.boot = options.self.boot;
  // The state before step 1 follows from the manifest: every acceptor of view 0 holds it.
  where.has_memory =
      agreement.view().view_id == 0 || (member && state_ready && !through && !work_lost);
  // Who is through without being a member has no trainer any more.
  where.leaving =
      leaving || work_lost || !result_sources.empty() || (finish_told && (!member || through));
  where.finished = holds_result();
  where.applied = where.held = committed;
  where.applied_result_digest = where.held_result_digest = result_digest;
  if (applied == committed) where.state_digest = state_digest;
  if (exchange && exchange_step == committed + 1 && exchange->held()) {
    where.held = committed + 1;
    where.held_result_digest = exchange->result_digest();
  }
  if (!through && !work_lost) where.fingerprint = options.fingerprint;  // else fit for nothing more
  where.wish = wish;
  if (where.has_memory && agreement.view().view_id > 0) {
    where.plan = plan.owner;
    where.paces = paces.to_words();
  }
  where.resume_from = resume_from;
  where.met = rival;
  where.checkpoint = options.checkpoint.name();
  where.checkpoint_digest = options.checkpoint.state_digest;
  where.lease_left = lease_granted(now);
  // Also those outside: their wish to join may have come to others, never to this node.
  for (const auto& [node, peer] : peers)
    if (!reached(node) && where.unreachable.size() < kMaxUnreachable)
      where.unreachable.push_back(node);
  for (const auto& [node, joiner] : joiners)
    if (reaches(node, joiner)) where.learners.push_back(node);
  return where;
}

Result<view::View> JobCore::State::compose(
    const std::vector<view::ViewAgreement::Promiser>& promisers, bool forced) const {
  ProposalRules rules;
  if (forced) {
    const Digest origin = agreement.view().digest();
    const std::uint64_t self = mix(digest_of(options.self.node.value).low, options.self.boot);
    rules.split_mark = mix(origin.low, mix(self, agreement.votes().promised.round)) | 1;
    rules.split_kind = split_kind;
  }
  rules.tree = options.tree;
  rules.wanted_nodes = options.wanted_nodes;
  rules.min_nodes = options.min_nodes;
  rules.total_steps = options.total_steps;
  // Of this view's witnesses those that promised, then who offers itself.
  for (const NodeId& node : witness_candidates()) {
    const bool promised = std::any_of(promisers.begin(), promisers.end(),
                                      [&](const auto& one) { return one.node == node; });
    if (promised || !agreement.view().is_witness(node)) rules.witnesses.push_back(node);
  }
  std::vector<view::ViewAgreement::Promiser> heard = promisers;
  for (auto& one : heard) {
    const auto joiner = joiners.find(one.node);
    if (joiner != joiners.end() && joiner->second.barred_until > now && !one.standing.has_memory)
      one.standing.leaving = true;
  }
  Result<view::View> next = propose_view(rules, agreement.view(), heard, learners());
  // Waiting for who was heard is a courtesy that ends: it may be heard and yet be deaf for good.
  const bool undoes = next && !forced && next->restores && agreement.view().view_id > 0;
  const bool waited = now >= agreement.wanted_since() + kHeardFor;
  if (!undoes || waited) return next;
  for (const view::Member& one : agreement.view().members) {
    // It may answer yet, and then nothing need be undone.
    const auto peer = peers.find(one.node);
    const bool lives = one.node != options.self.node && peer != peers.end() && !gone(one.node) &&
                       now < peer->second.heard + options.timings.lease_term;
    const bool told = std::any_of(heard.begin(), heard.end(),
                                  [&](const auto& other) { return other.node == one.node; });
    if (lives && !told)
      return Error{ErrorCode::unavailable,
                   "waiting for node " + one.node.short_text() + ", which was heard a moment ago"};
  }
  return next;
}

bool JobCore::State::gone(const NodeId& node) const {
  const auto found = peers.find(node);
  return found != peers.end() &&
         (found->second.state == PeerState::dead || found->second.state == PeerState::refused);
}

bool JobCore::State::reached(const NodeId& node) const {
  const auto found = peers.find(node);
  return !gone(node) &&
         (found == peers.end() || (!found->second.unheard && now >= found->second.cut_until));
}

bool JobCore::State::suspected(const NodeId& node) const {
  if (gone(node)) return true;
  const auto found = peers.find(node);
  return found != peers.end() &&
         (found->second.state == PeerState::suspect || found->second.doubted_until > now);
}

std::vector<NodeId> JobCore::State::peers_of(const view::View& view) const {
  std::vector<NodeId> nodes = view.acceptors;
  for (const view::Member& one : view.members)
    if (!view.is_acceptor(one.node)) nodes.push_back(one.node);
  return nodes;
}

void JobCore::State::change_view(Time at, const std::string& reason, Actions& out) {
  if (agreement.wanted() || agreement.frozen()) return;
  // Who has no vote in it wants it again and again: once is enough to say so.
  if (reason != end_told)
    report("view " + std::to_string(agreement.view().view_id) + " ends: " + reason, out);
  end_told = reason;
  agreement.want_change(at);
  FreezeHint hint{reason, {}};
  for (const NodeId& node : peers_of(agreement.view()))
    if (suspected(node)) hint.suspects.push_back(node);
  for (const NodeId& node : peers_of(agreement.view())) send(node, hint, out);
}

void JobCore::State::on_hint(Time at, const NodeId& from, const FreezeHint& hint, Actions& out) {
  const view::View& view = agreement.view();
  if (!view.rank_of(from) && !view.is_acceptor(from)) return;
  for (const NodeId& node : hint.suspects) {
    if (node == options.self.node || (!view.rank_of(node) && !view.is_acceptor(node))) continue;
    Peer& peer = peers[node];
    if (node == from) {  // it says so itself
      peer.state = PeerState::refused;
      peer.state_at = at;
      report("node " + from.short_text() + " takes part no longer: " + hint.reason, out);
    } else if (at > peer.heard + kHeardLately)
      peer.doubted_until = at + kDoubtHolds;
  }
  agreement.want_change(at);
}

// Starts a view change for what the detector, silence or this node's own wish demand.
void JobCore::State::watch_members(Time at, Actions& out) {
  if (agreement.frozen() || agreement.wanted() || agreement.view().stopped) return;
  if (!member) {
    // A voter of an earlier life: if its fellows are no better off, it has to start by itself.
    const view::View& view = agreement.view();
    const bool voter = view.is_acceptor(options.self.node);
    // A witness leaves it to the members, as long as there is one.
    if (view.is_witness(options.self.node) &&
        !std::all_of(view.members.begin(), view.members.end(),
                     [this](const view::Member& one) { return gone(one.node); }))
      return;
    if (voter && !finish_told && at >= installed_at + options.timings.stall)
      agreement.want_change(at);
    return;
  }
  if (through) return change_view(at, "this node has the result already", out);
  if (committed >= options.total_steps) return;
  const view::View& view = agreement.view();
  for (const view::Member& one : view.members)
    if (gone(one.node)) {
      change_view(at, "node " + one.node.short_text() + " is gone", out);
      return;
    }
  for (auto& [node, joiner] : joiners) {
    const bool syncing = view.rank_of(node) && at < joiner.asked + options.timings.joiner_fresh;
    if (!syncing || at < joiner.progress + kSyncStall) continue;
    joiner.barred_until = at + kBarredFor;
    change_view(at, "node " + node.short_text() + " does not get on with fetching the state", out);
    return;
  }
  if (!exchange || !state_ready) return;
  const std::vector<std::uint16_t> awaited = exchange->waiting_for();
  for (std::uint16_t rank = 0; rank < view.members.size(); ++rank) {
    const NodeId& node = view.members[rank].node;
    Peer& peer = peers[node];
    if (node == options.self.node ||
        std::find(awaited.begin(), awaited.end(), rank) == awaited.end()) {
      peer.awaited_since.reset();
      continue;
    }
    // Two members may have nothing to tell each other during a long step: that is no silence.
    if (!peer.awaited_since) peer.awaited_since = at;
    const Duration silence =
        at - std::max({peer.heard, *peer.awaited_since, step_began, installed_at});
    const bool stalled = suspected(node) && silence > options.timings.stall;
    if (!stalled && silence <= options.timings.stall_alive) continue;
    peer.doubted_until = at + kDoubtHolds;
    peer.unheard = true;
    change_view(at, "node " + node.short_text() + " is silent", out);
    return;
  }
}

// Between two steps: the moment for changes that nothing forces.
void JobCore::State::on_commit_boundary(Time at, Actions& out) {
  const view::View& view = agreement.view();
  if (!can_exchange() || committed >= options.total_steps) return;
  if (!view.is_acceptor(options.self.node) && !leaving && wish == view::Wish::none) return;
  const bool learner_is_through =
      committed > view.base_step && voting_members() < view.members.size();
  bool admits = false;
  if (view.members.size() < options.wanted_nodes &&
      at >= installed_at + options.timings.admit_every)
    for (const Joining& learner : learners())
      admits = admits ||
               ((learner.ready || broken("admits_unready")) && !view.rank_of(learner.member.node));
  const bool leaves = wants_out(at), stops = wish == view::Wish::stop;
  if (leaves) leave_tried = at;
  if (leaves)
    change_view(at, "this node leaves", out);
  else if (learner_is_through || admits || stops || wants_witnesses(at))
    agreement.want_change(at);
}

// Frozen for a while: the next view may have been decided without this node hearing of it.
void JobCore::State::ask_tick(Time at, Actions& out) {
  constexpr Duration kAskEvery = std::chrono::milliseconds(1000);
  const bool waits = agreement.frozen() || agreement.wanted();
  if (!waits) view_asked = at;
  if (!waits || at < view_asked + kAskEvery) return;
  view_asked = at;
  std::set<NodeId> targets(hints.begin(), hints.end());
  for (const NodeId& node : peers_of(agreement.view())) targets.insert(node);
  for (const NodeId& node : targets) send(node, ViewAsk{}, out);
}

// Parts of a job that went on apart have nothing to say to each other: each lets those outside its
// view hear which history it is in, so that they meet.
void JobCore::State::gossip_tick(Time at, Actions& out) {
  constexpr Duration kGossipEvery = std::chrono::milliseconds(2000);
  const view::View& view = agreement.view();
  const bool may_be_split = options.goes_on_alone || view.generation() > 0;
  if (!may_be_split || !member || at < gossiped + kGossipEvery) return;
  gossiped = at;
  std::set<NodeId> others(hints.begin(), hints.end());
  for (const auto& [node, peer] : peers) others.insert(node);
  for (const NodeId& node : others)
    if (!view.rank_of(node) && !view.is_acceptor(node)) answer_need(node, out);
}

void JobCore::State::tell_view(Time at, const NodeId& to, Actions& out, bool always) {
  if (decided.view.view_id == 0) return;
  Peer& peer = peers[to];
  if (!always && peer.notified != Time{} && at < peer.notified + kTellEvery) return;
  peer.notified = at;
  send(to, ViewNotice{decided, committed}, out);
}

void JobCore::State::carry_out(Time at, view::ViewAgreement::Effects& effects, Actions& out) {
  for (auto& [token, bytes] : effects.persists) out.push_back(Persist{token, std::move(bytes)});
  for (auto& [to, message] : effects.sends) send(to, Vote{std::move(message)}, out);
  if (effects.noted) on_noted(std::move(*effects.noted), out);
  if (!effects.decided) return;
  const view::DecidedView next = std::move(*effects.decided);
  std::set<NodeId> all;
  for (const NodeId& node : peers_of(agreement.view())) all.insert(node);
  for (const NodeId& node : peers_of(next.view)) all.insert(node);
  install(at, next, out);
  for (const NodeId& node : all) tell_view(at, node, out, true);
}

// A view that another version, or a liar, sends may not reach code that trusts its numbers.
bool JobCore::State::fits_job(const view::View& view) const {
  return view.job == options.job && !view.members.empty() && !view.acceptors.empty() &&
         view.members.size() < 0xffff && view.base_step <= options.total_steps &&
         collective::SlicePlan{view.plan}.fits(options.tree,
                                               static_cast<std::uint16_t>(view.members.size()));
}

bool JobCore::State::fits_job(const view::VoteMessage& message) const {
  if (const auto* accept = std::get_if<view::Accept>(&message)) return fits_job(accept->view);
  if (const auto* promise = std::get_if<view::Promise>(&message))
    return !promise->accepted || fits_job(promise->accepted->view);
  return true;
}

void JobCore::State::on_notice(Time at, const NodeId& from, const ViewNotice& notice,
                               Actions& out) {
  const view::View& view = agreement.view();
  const view::DecidedView& next = notice.decided;
  if (next.view.job != options.job || next.view.name() == view.name()) return;
  switch (view::precedence(next.view, view)) {
    case view::Precedence::ours:
      if (next.view.history() != view.history()) tell_view(at, from, out);
      return;
    case view::Precedence::open:
      return meet(at, from, next.view, out);
    case view::Precedence::theirs:
      break;
  }
  const bool splits = view::parted_by(next.view, view) != 0;
  const bool follows = !splits && next.view.view_id == view.view_id + 1;
  const bool proven =
      !follows || broken("half_quorum_without_tie") || view::is_quorum(view, next.accepted_by);
  if (!proven || !fits_job(next.view)) {
    report("ignored a view " + std::to_string(next.view.view_id) +
               " that is not proven or does not fit the job",
           out);
    return;
  }
  install(at, next, out);
}

// Two parts of the job that went on without a quorum: each forms a view for the comparison, so that
// both know how far either had come; until then each goes on.
void JobCore::State::meet(Time at, const NodeId& from, const view::View& theirs, Actions& out) {
  const view::View& view = agreement.view();
  const std::uint64_t mark = view::parted_by(theirs, view);
  if (view.met != mark) {
    rival = mark;
    const bool decides = member && state_ready;
    if (decides) change_view(at, "another part of the job was met, which went on by itself", out);
  }
  tell_view(at, from, out);
}

// A view of another history: the state here stays if the new history has come from it.
void JobCore::State::leave_history(const view::View& before, Actions& out) {
  const view::View& view = agreement.view();
  const bool kept = view.descends_from(history, committed) || broken("never_foreign");
  if (kept) history = view.history();
  if (view.generation() != before.generation() && committed > 0)
    report("the job goes on as generation " + std::to_string(view.generation()) +
               (kept ? "" : ": what this node had done alone is given up"),
           out);
  // Whoever has told the end gives its result to who lacks it, whatever the others do.
  result_wanted = false;
  result_sources.clear();
  source.clear();
  end_copies(true);
  log.clear();
  queued.clear();
  durable = view.floor;
  for (auto& [node, joiner] : joiners) joiner.ready_at = Time{};
  for (auto& [node, peer] : peers) peer.finished = false;
}

void JobCore::State::install(Time at, const view::DecidedView& next, Actions& out) {
  const view::View before = agreement.view();
  const bool had_result = holds_result();
  decided = next;
  const view::View& view = decided.view;
  view::ViewAgreement::Effects effects;
  const Time wanted_since =
      agreement.wanted() || agreement.frozen() ? std::min(at, agreement.wanted_since()) : at;
  agreement.adopt(decided, effects);
  carry_out(at, effects, out);
  end_stall(at, "view " + std::to_string(view.view_id) + " takes its place", out);
  last_commit.reset();
  end_leases();
  if (view.floor.name > durable.name) durable = view.floor;
  lone_since.reset();
  if (rival == view.met) rival = 0;
  installed_at = step_began = at;
  committed_at = Time{};
  pause_told = false;
  end_told.clear();
  if (wish == view::Wish::resume_from && view.history() != before.history())
    wish = view::Wish::none;
  if (view.stopped ? wish == view::Wish::stop : wish == view::Wish::resume) wish = view::Wish::none;
  stop_told = false;
  member = view.has_member(options.self);
  state_ready = false;
  early = {};
  if (ahead_view == view.name()) std::swap(early, ahead);
  ahead = {};
  previous_exchange.reset();
  form->forget();  // chunks may have other owners
  follow_places(std::vector<std::uint64_t>(view.members.size(), 0));
  const bool turned = view.history() != before.history();
  const bool redo = view.owner_rotation != before.owner_rotation || turned;
  if (redo && !broken("redo_keeps_partials")) {
    partials.clear();
    partial_step = 0;
    discard_kept = true;
  }
  if (turned) {
    through = through || had_result;
    leave_history(before, out);
  }
  if (view.members.size() < options.wanted_nodes)
    for (const Joining& one : learners())  // not all members reach it: not soon again
      if (one.ready && !view.rank_of(one.member.node))
        joiners[one.member.node].barred_until = at + kRefusedFor;
  for (const view::Member& one : before.members) {
    // Left out, and the same life of it asks to come back: what cut it off is likely still there.
    Joiner& joiner = joiners[one.node];
    if (view.has_member(one) || joiner.boot > one.boot) continue;
    joiner.boot = one.boot;
    joiner.barred_until = at + kRefusedFor;
  }
  for (const view::Member& one : view.members)
    if (const auto found = joiners.find(one.node); found != joiners.end())
      found->second.asked = Time{};
  for (const NodeId& node : peers_of(before))
    if (before.view_id > 0 && !view.rank_of(node) && !view.is_acceptor(node)) left[node] = at;
  // A result that is held, but not yet committed, may be the view's base.
  std::optional<collective::AllReduce> held;
  if (exchange && exchange->held() && exchange_step == committed + 1) held = std::move(exchange);
  exchange.reset();
  if (options.places) options.places->close();

  follow_view(before);
  if (!member) {
    owes_view = before.is_acceptor(options.self.node);
    leaving = holding = false;
    source.clear();
    out.push_back(ViewInstalled{view, Role::outsider, wanted_since});
    leave_tick(at, out);
    return;
  }
  std::vector<NodeId> computed_by = computing(before);
  follow_plan_of(view);
  const bool rolls_forward =
      held && !view.restores && view.base_step == committed + 1 && history == view.history() &&
      (held->result_digest() == view.result_digest || broken("roll_forward_any_digest"));
  const bool survives = rolls_forward || holds_base() || through;  // which has more than the base
  out.push_back(ViewInstalled{view, survives ? Role::member : Role::learner, wanted_since});
  if (rolls_forward) commit(at, *held, std::move(computed_by), false, out);
  committed_at = Time{};  // no DONE was exchanged for it here
  for (const view::Member& one : view.members) log.forget_waiting(one.node);
  settle(at, out);
}

void JobCore::State::follow_plan_of(const view::View& view) {
  plan = first_plan(options.tree, view);
  const auto count = static_cast<std::uint16_t>(view.members.size());
  if (broken("paces_not_in_view"))
    paces.members.resize(count);
  else
    paces = collective::Paces::from_words(view.paces, count);
}

// The state here is the one that the view starts from (it may still be under Apply).
bool JobCore::State::holds_base() const {
  const view::View& view = agreement.view();
  if (!is_of_history() || committed != view.base_step) return false;
  return same_or_unknown(result_digest, view.result_digest) &&
         (applied != committed || same_or_unknown(state_digest, view.state_digest));
}

// Enters the view as a member: with the state at hand, or by fetching it.
void JobCore::State::settle(Time at, Actions& out) {
  if (!member || state_ready || installing || restoring || through) return;
  // What was promised of this state stands until the view that follows from it.
  if (agreement.frozen()) return;
  const view::View& view = agreement.view();
  if (holds_base()) {
    drop_fetch();
    drop_results();
    if (view.restores) result_digest = {};  // as at the members that load the checkpoint
    state_ready = true;
    tell_learned(at, out);
    offer_state(at, out);
    maybe_begin(at, out);
    return;
  }
  if (!result_sources.empty()) return;  // which have more than the view begins with
  source.clear();
  // The very state is on this node's own disk, or follows from the manifest.
  const Checkpoint& kept = options.checkpoint;
  const bool on_disk = kept.step == view.base_step && kept.step > 0 &&
                       kept.state_digest == view.state_digest &&
                       view.descends_from(kept.history, kept.step);
  if (on_disk || (view.base_step == 0 && view.restores)) {
    fetch.reset();
    if (!learn_began) learn_began = at;
    restoring = on_disk ? kept : Checkpoint{0, options.initial_state_digest, {}, {}};
    watchdog.dropped(Watchdog::Work::apply);
    watchdog.asked(Watchdog::Work::install, at, kLoadsFor);
    out.push_back(RestoreState{view.base_step});
    return;
  }
  if (is_late()) return learn_tick(at, out);  // the members still keep the results it lacks
  if (committed > view.base_step && history == view.history())
    report("the view resumes from step " + std::to_string(view.base_step) +
               ", before a step that this node has committed: its state is fetched anew",
           out);
  start_fetch(at, out);
}

}  // namespace gpunode::job
