// View changes: when another view is wanted, what this node tells about itself for it, and which
// view of others it takes.
#include <algorithm>
#include <set>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr std::size_t kMaxUnreachable = 256;
// Views that a node may have missed: more than ever come, and so few that no liar's view leaves no
// number for those after it.
constexpr std::uint64_t kMostViewsAhead = std::uint64_t{1} << 32;
}  // namespace

view::Standing JobCore::State::standing() const {
  const view::View& view = job.view();
  if (view.view_id == 0) fault_point("forming", 0);
  const Progress& here = job.progress;
  view::Standing where;
  where.boot = job.options.self.boot;
  // The state before step 1 follows from the manifest: every acceptor of view 0 holds it.
  where.has_memory = view.view_id == 0 || (job.member && job.state_ready && !here.is_loading() &&
                                           !job.through && !job.work_lost);
  // Who is through without being a member has no trainer any more.
  where.leaving = leaver.leaves() || job.work_lost || job.takes_result ||
                  (job.finished && (!job.member || job.through));
  where.finished = job.holds_result();
  where.applied = where.held = here.committed();
  where.applied_result_digest = where.held_result_digest = here.result_digest();
  if (job.is_applied()) where.state_digest = here.state_digest();
  const auto& exchange = steps.exchange();
  if (exchange && steps.step() == here.committed() + 1 && exchange->held()) {
    where.held = here.committed() + 1;
    where.held_result_digest = exchange->result_digest();
  }
  // Else fit for nothing more.
  if (!job.through && !job.work_lost) where.fingerprint = job.options.fingerprint;
  where.order = orders.order();
  if (where.has_memory && view.view_id > 0) {
    where.plan = steps.plan().slices().owner;
    where.paces = steps.plan().paces().to_words();
  }
  where.met = forks.rival();
  where.checkpoint = job.checkpoint.name();
  where.checkpoint_digest = job.checkpoint.state_digest;
  where.lease_left = lease.granted();
  // Also those outside: their wish to join may have come to others, never to this node.
  where.unreachable = job.peers.unreached(job.now);
  std::stable_partition(where.unreachable.begin(), where.unreachable.end(),
                        [&](const NodeId& node) { return view.has_part(node); });
  if (where.unreachable.size() > kMaxUnreachable) where.unreachable.resize(kMaxUnreachable);
  where.learners = joiners.reached();
  return where;
}

void JobCore::State::change_view(const std::string& reason, Actions& out) {
  if (job.is_changing()) return;
  // Who has no vote in it wants it again and again: once is enough to say so.
  if (reason != end_told)
    job.report("view " + std::to_string(job.view().view_id) + " ends: " + reason, out);
  end_told = reason;
  job.agreement.want_change(job.now);
  FreezeHint hint{reason, {}};
  for (const NodeId& node : job.everybody())
    if (job.suspected(node)) hint.suspects.push_back(node);
  for (const NodeId& node : hint.suspects) lost.on_doubt(node, reason, false);
  job.send_all(hint, out);
}

void JobCore::State::split(const std::optional<view::SignedOrder>& order, Actions& out) {
  split_order = order;
  view::ViewAgreement::Effects effects;
  job.agreement.force(job.now, effects);
  carry_out(effects, out);
}

void JobCore::State::on_hint(const NodeId& from, const FreezeHint& hint, Actions& out) {
  const view::View& view = job.view();
  if (!view.has_part(from)) return;
  for (const NodeId& node : hint.suspects) {
    if (node == job.self() || !view.has_part(node)) continue;
    lost.on_doubt(node, hint.reason, node == from);
    if (node == from) {  // it says so itself
      job.peers.on_farewell(job.now, node);
      job.report("node " + from.short_text() + " takes part no longer: " + hint.reason, out);
    } else {
      job.peers.on_doubt(job.now, node);
    }
  }
  job.agreement.want_change(job.now);
}

// Starts a view change for what the detector, silence or this node's own wish demand.
void JobCore::State::watch_members(Actions& out) {
  const view::View& view = job.view();
  if (job.is_changing() || view.stopped) return;
  for (const NodeId& node : forks.double_voters())
    if (view.has_part(node) && view.is_acceptor(job.self()))
      return change_view("node " + node.short_text() + " has voted twice and is put out", out);
  if (!job.member) {
    // A voter of an earlier life: if its fellows are no better off, it has to start by itself. A
    // witness leaves it to the members, as long as there is one.
    if (view.is_witness(job.self()) &&
        !std::all_of(view.members.begin(), view.members.end(),
                     [this](const view::Member& one) { return job.gone(one.node); }))
      return;
    if (view.is_acceptor(job.self()) && !job.finished &&
        job.now >= job.installed_at + job.options.timings.stall)
      job.agreement.want_change(job.now);
    return;
  }
  if (job.through) return change_view("this node has the result already", out);
  if (learner.is_starved())
    return change_view("nobody gives this node the state that the view starts from", out);
  if (job.is_last_step()) return;
  for (const view::Member& one : view.members)
    if (job.gone(one.node)) return change_view("node " + one.node.short_text() + " is gone", out);
  if (const std::optional<NodeId> stuck = joiners.bar_stuck_member())
    return change_view("node " + stuck->short_text() + " does not get on with fetching the state",
                       out);
  if (steps.exchange() && job.state_ready) watch_silence(out);
}

// A member whose bytes or whose word the step waits for, and that says nothing for too long.
void JobCore::State::watch_silence(Actions& out) {
  const view::View& view = job.view();
  const JobCore::Timings& timings = job.options.timings;
  const std::vector<std::uint16_t> awaited = steps.exchange()->waiting_for();
  for (std::uint16_t rank = 0; rank < view.members.size(); ++rank) {
    const NodeId& node = view.members[rank].node;
    const bool waits =
        node != job.self() && std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
    const Duration silence =
        job.peers.waited(job.now, node, waits, std::max(steps.began(), job.installed_at));
    const bool stalled = job.suspected(node) && silence > timings.stall;
    if (!waits || (!stalled && silence <= timings.stall_alive)) continue;
    job.peers.give_up(job.now, node);
    return change_view("node " + node.short_text() + " is silent", out);
  }
}

// Between two steps: the moment for changes that nothing forces.
void JobCore::State::on_commit_boundary(Actions& out) {
  const view::View& view = job.view();
  if (!job.can_exchange() || job.is_last_step()) return;
  const bool stops = orders.wants(view::OrderKind::stop);
  if (!view.is_acceptor(job.self()) && !leaver.leaves() && !orders.order()) return;
  if (leaver.try_now()) return change_view("this node leaves", out);
  const bool learner_is_through =
      job.progress.committed() > view.base_step && witnesses.voting_members() < view.members.size();
  bool admits = false;
  if (job.has_room() && job.now >= job.installed_at + job.options.timings.admit_every)
    for (const Joining& one : joiners.joining(donor.results_from()))
      admits =
          admits || ((one.ready || broken("admits_unready")) && !view.rank_of(one.member.node));
  if (learner_is_through || admits || stops || witnesses.wants_others())
    job.agreement.want_change(job.now);
}

void JobCore::State::gossip(Actions& out) {
  if (!news.is_gossip_due()) return;
  show_evidence(out);
  const view::View& view = job.view();
  const bool may_be_split = job.options.goes_on_alone || view.generation() > 0;
  std::set<NodeId> others;
  if (may_be_split) others.insert(job.hints.begin(), job.hints.end());
  for (const NodeId& node : job.peers.known())
    if (may_be_split || job.peers.had_part(node)) others.insert(node);
  for (const NodeId& node : others)
    if (!view.has_part(node)) may_be_split ? answer(node, out) : news.ask(node, out);
}

void JobCore::State::carry_out(view::ViewAgreement::Effects& effects, Actions& out) {
  for (auto& [token, bytes] : effects.persists) out.push_back(Persist{token, std::move(bytes)});
  for (auto& [to, message] : effects.sends) job.send(to, Vote{std::move(message)}, out);
  if (effects.noted) durability.on_noted(std::move(*effects.noted), out);
  if (!effects.decided) return;
  view::DecidedView next = std::move(*effects.decided);
  std::set<NodeId> all;
  for (const NodeId& node : job.everybody()) all.insert(node);
  for (const NodeId& node : everybody_in(next.view)) all.insert(node);
  install(job.agreement.with(std::move(next)), out);
  for (const NodeId& node : all) news.tell(node, true, out);
}

namespace {

// What the view carries out is an order that may be given, though perhaps not today: others may have
// accepted the view when it could. And nothing else stops a job, or lets it go on.
bool is_ordered(const JobContext& job, const view::View& next) {
  const view::View& now = job.view();
  if (next.order == now.order) return next.stopped == now.stopped;
  if (!next.order || !view::is_later(*next.order, now.order)) return false;
  if (next.order->kind > view::OrderKind::resume_from) return false;
  if (next.stopped != (next.order->kind == view::OrderKind::stop)) return false;
  return job.may_order(*next.order, view::OrderUse::agreed).has_value();
}

// What a voter can tell by itself of the view that it is asked to vote for: it goes on in the history
// of this one, or back to a checkpoint in one of its own; not behind a step that this node knows to
// be committed, as every survivor holds that; it keeps what no view may change, and stops and goes on
// only by an order.
bool may_follow(const JobContext& job, const view::View& next) {
  const view::View& now = job.view();
  const bool back = next.restores;
  if (next.turns.size() != now.turns.size() + (back ? 1 : 0) ||
      !std::equal(now.turns.begin(), now.turns.end(), next.turns.begin()))
    return false;
  if (back &&
      (next.turns.back().kind != view::Turn::Kind::rollback ||
       next.turns.back().view_id != next.view_id || next.turns.back().base_step != next.base_step))
    return false;
  if (now.view_id > 0 && next.fingerprint != now.fingerprint) return false;
  if (next.owner_rotation < now.owner_rotation || next.owner_rotation > now.owner_rotation + 1)
    return false;
  if (!is_ordered(job, next)) return false;
  if (back) return true;
  const std::uint64_t committed = job.is_of_history() ? job.progress.committed() : 0;
  return next.base_step >= std::max(now.base_step, committed) && next.floor.name >= now.floor.name;
}

}  // namespace

// A view that another version, or a liar, sends may not reach code that trusts its numbers.
bool JobCore::State::fits_job(const view::View& view) const {
  return view.job == job.options.job && view.view_id <= job.view().view_id + kMostViewsAhead &&
         view.floor.name.step <= job.options.total_steps && !view.members.empty() &&
         !view.acceptors.empty() && view.members.size() < 0xffff &&
         view.base_step <= job.options.total_steps &&
         collective::SlicePlan{view.plan}.fits(job.options.tree,
                                               static_cast<std::uint16_t>(view.members.size()));
}

bool JobCore::State::fits_job(const view::VoteMessage& message) const {
  if (const auto* accept = std::get_if<view::Accept>(&message))
    return fits_job(accept->view) && may_follow(job, accept->view);
  if (const auto* promise = std::get_if<view::Promise>(&message))
    return !promise->accepted || fits_job(promise->accepted->view);
  if (const auto* note = std::get_if<view::NoteFloor>(&message))
    return job.may_be(note->floor.name);
  return true;
}

void JobCore::State::on_notice(const NodeId& from, const ViewNotice& notice, Actions& out) {
  const view::View& view = job.view();
  if (notice.chain.empty()) return;
  const view::View& next = notice.chain.back().view;
  if (next.job != job.options.job || on_fork(from, notice.chain, out)) return;
  if (next.name() == view.name()) return;
  const view::Precedence precedence = view::precedence(next, view);
  if (precedence == view::Precedence::ours) {
    if (next.history() != view.history()) news.tell(from, false, out);
    return;
  }
  if (!fits_job(next)) return refuse(from, next, "does not fit the job", out);
  std::optional<view::ViewChain> proven = news.on_told(from, notice.chain, is_astray(), out);
  if (!proven) return refuse(from, next, "is not proven from what this node knows", out);
  if (precedence == view::Precedence::open) return meet(from, next, out);
  install(std::move(*proven), out);
}

void JobCore::State::refuse(const NodeId& from, const view::View& next, const char* why,
                            Actions& out) {
  if (news.tells_refusal())
    job.report("ignored view " + std::to_string(next.view_id) + " as node " + from.short_text() +
                   " told it: it " + why,
               out);
}

// Who takes part where a quorum is believes nothing but what that quorum signs.
bool JobCore::State::is_astray() const {
  return !job.view().has_part(job.self()) || phase == Phase::paused;
}

// Two parts of the job that went on without a quorum: each forms a view for the comparison, so that
// both know how far either had come; until then each goes on.
void JobCore::State::meet(const NodeId& from, const view::View& theirs, Actions& out) {
  const std::uint64_t mark = view::parted_by(theirs, job.view());
  if (job.view().met != mark) {
    forks.meet(mark);
    if (job.member && job.state_ready)
      change_view("another part of the job was met, which went on by itself", out);
  }
  news.tell(from, false, out);
}

}  // namespace gpunode::job
