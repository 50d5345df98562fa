// Time goes on: each part looks after what is due, in an order that matters; and what people see of
// it all.
#include <algorithm>

#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

void JobCore::State::tick(Actions& out) {
  view::ViewAgreement::Effects effects;
  job.agreement.on_tick(job.now, effects);
  carry_out(effects, out);
  if (copies.offer_tick()) lease.ask_at_once();
  copies.fetch_tick(out);
  lease_tick(out);
  watch_work(out);
  watch_members(out);
  watch_orders(out);
  donor.on_tick();
  if (!ending.on_tick(out)) settle(out);
  learner.on_tick(out);
  load_what_came(out);
  learner.join_tick(out);
  witnesses.on_tick(leaver.leaves(),
                    job.finished ? std::optional<Time>{ending.done_at()} : std::nullopt, out);
  news.ask_tick(out);
  gossip(out);
  maybe_begin(out);
  if (job.can_exchange()) {
    steps.link().on_tick(out);
    steps.on_tick(out);
    advance(out);
  }
  orders.tell_stopped(out);
  stalls.on_tick(steps.exchange(), steps.began(), out);
  ending.tell(is_certain(), out);
  if (ending.releases()) {
    steps.release();
    donor.forget_results();
  }
  leave_tick(out);
  serve_learners(out);
  set_phase();
  watch_pause(out);
  if (phase == Phase::paused) orders.watch_lost_quorum(phase_since, out);
}

// No quorum for a while, or nobody to answer who is outside.
void JobCore::State::watch_pause(Actions& out) {
  const bool stuck = job.is_changing() &&
                     job.now >= phase_since + job.options.timings.pause_after &&
                     (phase == Phase::frozen || phase == Phase::paused);
  if (!stuck && (!learner.is_unanswered() || job.view().stopped)) return;
  const std::string reason = status().reason;
  if (!paused_for.tell(job.now, reason)) return;
  out.push_back(Paused{reason});
  set_phase();
}

Phase JobCore::State::outside() const {
  if (job.view().is_witness(job.self())) return Phase::witness;
  if (learner.is_unanswered() && !job.view().stopped) return Phase::paused;
  const bool learns = learner.is_under_way() || job.takes_result || job.progress.is_loading();
  return learns ? Phase::learning : Phase::outsider;
}

void JobCore::State::set_phase() {
  Phase next = Phase::running;
  if (job.is_changing())
    next = paused_for.any() ? Phase::paused : Phase::frozen;
  else if (!job.member)
    next = outside();
  else if (!job.state_ready)
    next = Phase::syncing;
  else if (job.is_last_step())
    next = Phase::done;
  else if (job.view().stopped)
    next = Phase::stopped;
  if (next == phase) return;
  if (next != Phase::paused) phase_since = job.now;
  phase = next;
}

JobStatus JobCore::State::status() const {
  JobStatus status;
  const view::View& view = job.view();
  status.phase = phase;
  status.view_id = view.view_id;
  status.committed = job.progress.committed();
  status.reported = lease.reported();
  // What a node that has no state yet knows of those that had one.
  if (!job.state_ready)
    status.reported = std::max({status.reported, view.base_step, durability.floor().name.step});
  status.needs_lease = job.needs_lease();
  status.durable = durability.floor();
  status.holders = static_cast<std::uint32_t>(
      std::max(durability.holders_of(status.durable.name).size(), status.durable.holders.size()));
  status.total_steps = job.options.total_steps;
  status.carried = steps.carried();
  status.unheard = job.peers.unheard();
  status.refused_orders = job.peers.refused_orders();
  status.unproven = job.agreement.unproven();
  status.in_phase = job.now - phase_since;
  status.reason = job.agreement.waiting_reason();
  status.hang = watchdog.hang();
  const bool waits_for_others = job.is_changing() && !status.reason.empty();
  if (status.hang && (job.work_lost || !waits_for_others)) status.reason = status.hang->text();
  status.lost = lost.list();
  status.generation = view.generation();
  status.stopped = view.stopped;
  status.stop_told = view.stopped && (orders.stop_told() || !job.member);
  if (orders.order()) status.ordered = orders.order()->kind;
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node)) status.witnesses.push_back(node);
  for (const view::Member& one : view.members) status.members.push_back(one.node);
  if (steps.exchange() && job.member)
    for (const std::uint16_t rank : steps.exchange()->waiting_for())
      if (rank < view.members.size() && view.members[rank].node != job.self())
        status.waiting_for.push_back(view.members[rank].node);
  if (job.is_changing()) status.waiting_for = job.agreement.missing();
  status.stall = stalls.stall(steps.exchange(), steps.began());
  learner.tell(status);
  if (job.takes_result) {
    status.waiting_for.assign(ending.sources().begin(), ending.sources().end());
    status.sync_received_bytes += ending.received_bytes();
  }
  return status;
}

}  // namespace gpunode::job
