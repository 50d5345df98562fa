// Storms of the simulated world: faults that last longer than the protocol's timeouts, that take
// everything at once, and orders of people at the wrong moment. They are drawn from a number of
// their own.
#include <algorithm>

#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

std::string_view to_string(Storm storm) {
  constexpr std::string_view kNames[] = {
      "long_pause",      "stuck_core",  "slow_votes",  "full_disk",      "no_checkpoints",
      "power_cut",       "new_disk",    "one_way",     "skewed_lanes",   "late_copies",
      "lost_machines",   "edge_clocks", "resume_from", "two_recoveries", "hangs",
      "flapping_spares", "bad_disk",    "stops",       "leaves"};
  static_assert(std::size(kNames) == kStormCount);
  return kNames[static_cast<std::size_t>(storm)];
}

Duration JobWorld::drawn(Duration low, Duration high) {
  return low + Duration(static_cast<std::int64_t>(
                   storm_rng_.below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}

void JobWorld::cut_power(Duration back_low, Duration back_high) {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    crash(node);
    schedule(now_ + drawn(back_low, back_high), [this, node] { restart(node); });
  }
}

// The votes of this node cannot be written: it says good-bye, and its part of the job ends.
void JobWorld::fail_job(std::size_t node) {
  Node& one = nodes_[node];
  const Time again = std::max(one.votes_fail, now_) + drawn(100ms, 20s);
  feed(node, input_of(Answer::leave), [&](job::Actions& out) {
    one.core->give_up(clock(node), "cannot store the job's votes", out);
  });
  kill_job(node);
  schedule(again, [this, node] { restart(node); });
}

void JobWorld::resume_job_from(std::size_t node, std::uint64_t step) {
  note(node, "RESUME FROM " + std::to_string(step));
  feed(node, input_of(Answer::resume), [&](job::Actions& out) {
    if (order_at(node, view::OrderKind::resume_from, out, step)) checks_->on_ordered_back(step);
  });
}

// What a person orders of one node, or of two.
void JobWorld::order(std::size_t node, std::size_t other, Storm storm) {
  switch (storm) {
    case Storm::resume_from: {
      std::vector<std::uint64_t> steps{0};
      for (const Node& any : nodes_)
        if (!any.saved.empty()) steps.push_back(any.checkpoint().step);
      return resume_job_from(node, steps[storm_rng_.below(steps.size())]);
    }
    case Storm::two_recoveries:
      for (const std::size_t who : {node, other})
        schedule(now_ + drawn(0ms, 200ms), [this, who] {
          if (alive(who)) recover_job(who);
        });
      return;
    case Storm::stops:
      stop_job(node);
      schedule(now_ + drawn(0ms, 10s), [this, other] { resume_job(other); });
      return;
    case Storm::leaves:
      if (alive(node)) leave(node, storm_rng_.chance(0.5) ? drawn(1ms, 3s) : 25s);
      return;
    default:
      return;
  }
}

void JobWorld::strike(std::size_t node, Storm storm) {
  Node& one = nodes_[node];
  const std::size_t count = nodes_.size();
  const std::size_t other = count > 1 ? (node + 1 + storm_rng_.below(count - 1)) % count : node;
  ++result_.storm[static_cast<std::size_t>(storm)];
  note(node, "STORM " + std::string(to_string(storm)));
  switch (storm) {
    case Storm::long_pause:
      return pause(node, drawn(3s, storm_rng_.chance(0.5) ? 12s : 60s));
    case Storm::stuck_core:
      if (!one.core || now_ < one.paused_until) return;
      one.stuck = true;
      return pause(node, drawn(1s, storm_rng_.chance(0.5) ? 12s : 60s));
    case Storm::slow_votes:
      one.votes_hang = now_ + drawn(500ms, 30s);
      return;
    case Storm::full_disk:
      one.votes_fail = one.checkpoints_fail = now_ + drawn(1s, 20s);
      return;
    case Storm::no_checkpoints:
      one.checkpoints_fail = now_ + drawn(5s, 60s);
      return;
    case Storm::power_cut:
      return cut_power(20ms, storm_rng_.chance(0.5) ? 3s : 30s);
    case Storm::new_disk: {
      if (one.lost) return;
      crash(node);
      schedule(now_ + drawn(1s, 10s), [this, node] {
        if (!nodes_[node].lost && !is_idle(node)) restart_empty(node);
      });
      return;
    }
    case Storm::one_way:
      set_cut(node, other, true);
      schedule(now_ + drawn(5s, storm_rng_.chance(0.5) ? 15s : 120s),
               [this, node, other] { set_cut(node, other, false); });
      return;
    case Storm::skewed_lanes: {
      const std::size_t lane = storm_rng_.below(2);
      wires_[node][other].late_by[lane] = drawn(20ms, storm_rng_.chance(0.5) ? 1s : 10s);
      wires_[node][other].late_until[lane] = now_ + drawn(1s, 40s);
      return;
    }
    case Storm::lost_machines:
      return lose_machine(node);
    case Storm::hangs:
      return storm_rng_.chance(0.5) ? hang_compute(node, drawn(1s, 60s))
                                    : hang_apply(node, drawn(1s, 60s));
    case Storm::flapping_spares:
      if (node < options_.candidate_count) return;
      crash(node);
      schedule(now_ + drawn(20ms, 5s), [this, node] { restart(node); });
      return;
    case Storm::bad_disk:
      return spoil_checkpoint(node);
    case Storm::resume_from:
    case Storm::two_recoveries:
    case Storm::stops:
    case Storm::leaves:
      return order(node, other, storm);
    case Storm::late_copies:
    case Storm::edge_clocks:
    case Storm::kCount:
      return;
  }
}

// Every 50 ms each kind has its chance.
void JobWorld::storms() {
  if (calm_) return;
  for (std::size_t kind = 0; kind < kStormCount; ++kind) {
    const auto storm = static_cast<Storm>(kind);
    if (options_.storm[kind] == 0 || storm == Storm::late_copies || storm == Storm::edge_clocks)
      continue;
    const bool for_all = storm == Storm::power_cut;
    for (std::size_t node = 0; node < (for_all ? 1 : nodes_.size()); ++node)
      if (storm_rng_.chance(options_.storm[kind] * 0.05)) strike(node, storm);
  }
  schedule(now_ + 50ms, [this] { storms(); });
}

void JobWorld::storm_moment(std::size_t node, std::size_t moment) {
  if (options_.planned_storms.empty()) return;
  const std::uint32_t number = ++storm_moments_[moment];
  for (PlannedStorm& planned : options_.planned_storms) {
    if (calm_ || planned.fired || planned.moment != moment || planned.nth != number) continue;
    planned.fired = true;
    // Once the core has done with what it does now, or in the middle of it.
    if (storm_rng_.chance(0.5)) {
      schedule(now_ + drawn(0ms, 2ms), [this, node, strike_ = planned.strike] {
        if (!calm_) strike(node, strike_);
      });
    } else {
      schedule(now_, [this, node, strike_ = planned.strike] {
        if (!calm_) strike(node, strike_);
      });
    }
  }
}

void JobWorld::end_storms() {
  for (Node& node : nodes_) {
    node.votes_hang = node.votes_fail = Time{};
    node.checkpoints_fail = std::min(node.checkpoints_fail, now_);
  }
  for (auto& row : wires_)
    for (Wire& wire : row) wire.late_until = {};
}

}  // namespace gpunode::sim
