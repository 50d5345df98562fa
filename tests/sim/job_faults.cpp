// The hostile part of the simulated world: the failure detector's view of it, random faults, and
// faults planned for dangerous moments.
#include <algorithm>

#include "tests/sim/job_world.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

// What SWIM would tell, 100 ms apart: suspicion and death by silence, recovery by contact.
void JobWorld::detect() {
  for (std::size_t self = 0; self < nodes_.size(); ++self)
    for (std::size_t peer = 0; peer < nodes_.size(); ++peer) {
      if (self == peer || !sees(self, peer)) continue;
      Wire& wire = wires_[peer][self];
      const bool reachable = (nodes_[peer].core || nodes_[peer].job_dead || is_idle(peer)) &&
                             (now_ >= nodes_[peer].paused_until || nodes_[peer].stuck) &&
                             !wire.cut && !wires_[self][peer].cut;
      if (reachable) wire.contact = now_;
      if (options_.swim_detects || !nodes_[self].core || now_ < nodes_[self].paused_until) continue;
      const Duration silence = now_ - wire.contact;
      PeerHealth verdict = PeerHealth::alive;
      if (silence > 1200ms) verdict = PeerHealth::suspect;
      if (silence > 2500ms) verdict = PeerHealth::dead;
      if (!calm_ && verdict == PeerHealth::alive &&
          rng_.chance(options_.false_suspicion_rate * 0.1))
        verdict = rng_.chance(0.3) ? PeerHealth::dead : PeerHealth::suspect;
      auto& seen = nodes_[self].seen[peer];
      if (seen == verdict) continue;
      if (seen == PeerHealth::dead && !reachable) continue;
      seen = verdict;
      feed(self, input_of(verdict), [&](job::Actions& out) {
        nodes_[self].core->on_peer(clock(self), id(peer), verdict, out);
      });
    }
  schedule(now_ + 100ms, [this] { detect(); });
}

// Peers that this node could reach both ways within the last second, and itself.
std::vector<NodeId> JobWorld::heard_by(std::size_t node) const {
  std::vector<NodeId> heard{id(node)};
  // A node that was held in between asks later, but asked itself whether it is heard before.
  const Time until = nodes_[node].paused_until;
  const Duration held = now_ - until <= 2s ? until - nodes_[node].paused_since : Duration{};
  for (std::size_t peer = 0; peer < nodes_.size(); ++peer) {
    if (peer == node) continue;
    const Time last = std::max(wires_[peer][node].contact, wires_[peer][node].delivered);
    const bool lately = now_ - last <= 2s + held;
    const bool just_now = nodes_[peer].core && now_ >= nodes_[peer].paused_until &&
                          !wires_[peer][node].cut && !wires_[node][peer].cut;
    if (lately || just_now) heard.push_back(id(peer));
  }
  return heard;
}

// What the directory says: which nodes are up, whatever they do.
void JobWorld::tell_spares() {
  std::vector<NodeId> up;
  for (std::size_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].core || nodes_[node].job_dead || is_idle(node)) up.push_back(id(node));
  for (Node& node : nodes_)
    if (node.core) node.core->set_spares(up);
  schedule(now_ + 500ms, [this] { tell_spares(); });
}

// What a person orders who may: the job's owner, at whatever node.
Result<void> JobWorld::order_at(std::size_t node, view::OrderKind kind, job::Actions& out,
                                std::uint64_t step, bool anew) {
  job::JobCore& core = *nodes_[node].core;
  const view::SignedOrder order =
      view::order_of(core.view().job, kOwner, kind, ++ordered_, step, anew);
  checks_->on_order(order);
  return core.take_order(clock(node), order, out);
}

void JobWorld::stop_job(std::size_t node) {
  feed(node, input_of(Answer::stop),
       [&](job::Actions& out) { (void)order_at(node, view::OrderKind::stop, out); });
}

void JobWorld::resume_job(std::size_t node) {
  feed(node, input_of(Answer::resume),
       [&](job::Actions& out) { (void)order_at(node, view::OrderKind::resume, out); });
}

// What is durable is given up where it was on machines alone that are lost for good.
void JobWorld::recover_job(std::size_t node) {
  feed(node, input_of(Answer::recover), [&](job::Actions& out) {
    job::JobCore& core = *nodes_[node].core;
    const auto holders = core.status(clock(node)).durable.holders;
    const bool anew = std::ranges::all_of(
        holders, [&](const NodeId& holder) { return nodes_[index_of(holder)].lost; });
    const Result<void> taken = order_at(node, view::OrderKind::recover, out, 0, anew);
    note(node, taken ? "RECOVER" : "RECOVER is refused: " + taken.error().detail);
    if (taken) nodes_[node].forcing_until = (progress_ = now_) + 5s;
  });
}

// People, who now and then stop the job, resume it, or recover it by force; resuming is tried until
// it has worked.
void JobWorld::random_orders() {
  const std::size_t node = rng_.below(nodes_.size());
  if (!calm_ && rng_.chance(options_.stop_rate * 0.1)) stop_job(node);
  if (!calm_ && rng_.chance(options_.recover_rate * 0.1)) recover_job(node);
  if ((options_.stop_rate > 0 || has_storm(Storm::stops)) && (calm_ || rng_.chance(0.1)))
    resume_job(node);
  // Two generations may both stand still for want of a quorum: then a person decides.
  const bool late = calm_ && now_ > Time{} + options_.fault_time + 20s;
  const bool recovers = options_.recover_rate > 0 || has_storm(Storm::two_recoveries) ||
                        (has_lost_a_machine() && !options_.nobody_recovers);
  if (recovers && late && rng_.chance(0.005)) recover_job(node);
  schedule(now_ + 100ms, [this] { random_orders(); });
}

// Every 50 ms each kind of fault has its chance.
void JobWorld::random_faults() {
  if (calm_) return;
  const auto chance = [&](double rate) { return rng_.chance(rate * 0.05); };
  const std::size_t count = nodes_.size();
  for (std::size_t node = 0; node < count; ++node) {
    if (chance(options_.crash_rate)) {
      crash(node);
      if (rng_.chance(0.9)) schedule(now_ + between(20ms, 5s), [this, node] { restart(node); });
    }
    if (chance(options_.pause_rate)) pause(node, between(50ms, 4s));
    if (chance(options_.leave_rate) && alive(node)) {
      leave(node, rng_.chance(0.3) ? between(1ms, 1s) : 25s);
    }
  }
  if (count > 1 && chance(options_.reset_rate)) {
    const std::size_t a = rng_.below(count), b = (a + 1 + rng_.below(count - 1)) % count;
    break_link(a, b);
  }
  if (count > 1 && chance(options_.cut_rate)) {
    const std::uint64_t kind = rng_.below(3);
    std::vector<std::pair<std::size_t, std::size_t>> cuts;
    const std::size_t a = rng_.below(count), b = (a + 1 + rng_.below(count - 1)) % count;
    if (kind == 0) cuts = {{a, b}};  // one way
    if (kind == 1) cuts = {{a, b}, {b, a}};
    if (kind == 2) {  // in two parts
      std::vector<bool> side;
      for (std::size_t node = 0; node < count; ++node) side.push_back(rng_.chance(0.5));
      for (std::size_t x = 0; x < count; ++x)
        for (std::size_t y = 0; y < count; ++y)
          if (side[x] != side[y]) cuts.emplace_back(x, y);
    }
    for (const auto& [from, to] : cuts) set_cut(from, to, true);
    schedule(now_ + between(50ms, 6s), [this, cuts] {
      for (const auto& [from, to] : cuts) set_cut(from, to, false);
    });
  }
  schedule(now_ + 50ms, [this] { random_faults(); });
}

void JobWorld::moment(std::size_t node, Moment what) {
  if (calm_) return;
  storm_moment(node, static_cast<std::size_t>(what));
  const std::uint32_t number = ++moments_[static_cast<std::size_t>(what)];
  for (PlannedFault& fault : result_.planned) {
    if (fault.fired || fault.moment != what || fault.nth != number) continue;
    fault.fired = true;
    note(node, "planned fault " + std::to_string(static_cast<int>(what)));
    if (fault.strike == Strike::crash) {
      crash(node);
      schedule(now_ + between(20ms, 3s), [this, node] { restart(node); });
    } else if (fault.strike == Strike::pause) {
      pause(node, between(200ms, 4s));
    } else {
      for (std::size_t other = 0; other < nodes_.size(); ++other) {
        if (other == node) continue;
        set_cut(node, other, true);
        set_cut(other, node, true);
      }
      schedule(now_ + between(100ms, 5s), [this, node] {
        for (std::size_t other = 0; other < nodes_.size(); ++other) {
          if (other == node) continue;
          set_cut(node, other, false);
          set_cut(other, node, false);
        }
      });
    }
  }
}

void JobWorld::strike_at_next(Moment what) {
  for (PlannedFault& fault : result_.planned)
    if (fault.moment == what && fault.nth == 0)
      fault.nth = moments_[static_cast<std::size_t>(what)] + 1;
}

void JobWorld::moments_of(std::size_t node, const job::JobMessage& message) {
  if (const auto* vote = std::get_if<job::Vote>(&message.body)) {
    if (std::holds_alternative<view::Accepted>(vote->message)) moment(node, Moment::after_accepted);
    if (std::holds_alternative<view::Promise>(vote->message)) moment(node, Moment::after_promise);
    if (std::holds_alternative<view::Accept>(vote->message)) moment(node, Moment::on_accept);
  }
  if (const auto* step = std::get_if<job::StepMessage>(&message.body))
    if (std::holds_alternative<collective::Done>(step->message))
      moment(node, Moment::between_dones);
  if (std::holds_alternative<job::ViewNotice>(message.body)) moment(node, Moment::on_notice);
  if (std::holds_alternative<job::StatePart>(message.body)) moment(node, Moment::on_state_part);
}

void JobWorld::heal() {
  calm_ = true;
  for (std::size_t from = 0; from < nodes_.size(); ++from)
    for (std::size_t to = 0; to < nodes_.size(); ++to)
      if (from != to && wires_[from][to].cut && wires_[from][to].cut_until <= now_)
        set_cut(from, to, false);
  schedule(Time{} + options_.fault_time + 60s, [this] {
    for (std::size_t from = 0; from < nodes_.size(); ++from)
      for (std::size_t to = 0; to < nodes_.size(); ++to)
        if (wires_[from][to].cut_until > Time{}) set_cut(from, to, false);
  });
  for (Node& node : nodes_) node.compute_hangs = node.apply_hangs = Time{};
  end_storms();
  for (std::size_t node = 0; node < nodes_.size(); ++node)
    if (!nodes_[node].gone) restart(node);
  // Who was named when it had left already is missed, and started again by a person.
  for (const Duration later : {20s, 60s, 100s})
    schedule(now_ + later, [this] {
      for (std::size_t node = 0; node < nodes_.size(); ++node)
        if (nodes_[node].gone && !nodes_[node].lost && (options_.min_nodes > 1 || is_missed(node)))
          restart(node);
    });
}

// The newest view names it; or it ended before the others could know a view without it.
bool JobWorld::is_missed(std::size_t node) const {
  for (const Node& one : nodes_) {
    if (!options_.brings_back || !one.core || one.finished) continue;
    const job::JobStatus status = one.core->status(clock(index_of(one.member.node)));
    if (std::count(status.waiting_for.begin(), status.waiting_for.end(), id(node)) > 0 ||
        status.reason.find(id(node).short_text()) != std::string::npos)
      return true;
  }
  if (checks_->is_needed(id(node))) return true;
  return nodes_[node].hurried && std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& one) {
           return one.core && !one.finished && one.core->view().is_acceptor(id(node));
         });
}

}  // namespace gpunode::sim
