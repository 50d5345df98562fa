// Grey and lasting failures of the simulated world: what hangs, what is slow, what is lost for good
// and what comes back as if nothing had been. Each that strikes is counted.
#include <algorithm>

#include "tests/sim/job_world.hpp"
#include "tests/sim/protocol_rules.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

std::string_view to_string(Grey fault) {
  constexpr std::string_view kNames[] = {
      "hung compute", "hung apply",    "slow checkpoint", "failed read", "bad checkpoint",
      "old removed",  "lost machine",  "dead job",        "lasting cut", "late cut",
      "long split",   "stopped clock", "stale hints",     "large state"};
  static_assert(std::size(kNames) == kGreyCount);
  return kNames[static_cast<std::size_t>(fault)];
}

void JobWorld::struck(std::size_t node, Grey fault) {
  ++result_.grey[static_cast<std::size_t>(fault)];
  note(node, std::string(to_string(fault)));
}

void JobWorld::hang_compute(std::size_t node, Duration how_long) {
  nodes_[node].compute_hangs = std::max(nodes_[node].compute_hangs, now_ + how_long);
}

void JobWorld::hang_apply(std::size_t node, Duration how_long) {
  nodes_[node].apply_hangs = std::max(nodes_[node].apply_hangs, now_ + how_long);
}

void JobWorld::lose_machine(std::size_t node) {
  Node& one = nodes_[node];
  if (one.lost) return;
  crash(node);
  one.lost = one.gone = true;
  one.coming = false;
  one.saved.clear();
  one.outcome.reset();
  one.votes.clear();
  checks_->on_checkpoint_lost(id(node));
  struck(node, Grey::lost_machine);
}

void JobWorld::restart_empty(std::size_t node) {
  Node& one = nodes_[node];
  if (one.core) return;
  one.saved.clear();
  one.outcome.reset();
  one.votes.clear();
  checks_->on_checkpoint_lost(id(node));
  disks_[node].wipe();
  ++one.member.boot;
  start(node);
}

bool JobWorld::has_lost_a_machine() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& one) { return one.lost; });
}

// Somebody who is left says why the job does not go on, and it is true: a machine that is lost for
// good is named, or every copy of a checkpoint is gone, or there are too few nodes.
bool JobWorld::waits_for_what_is_lost() {
  std::vector<NodeId> lost;
  std::size_t able = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].lost) lost.push_back(id(node));
    able += !nodes_[node].lost && node + options_.witness_count < nodes_.size();
  }
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].core || nodes_[node].finished) continue;
    const job::JobStatus status = nodes_[node].core->status(clock(node));
    note(node, "at the end: " + std::string(job::to_string(status.phase)) + " step " +
                   std::to_string(status.committed) + " view " + std::to_string(status.view_id) +
                   ": " + status.reason);
    if (status.reason.empty()) continue;
    const bool names_it = std::any_of(lost.begin(), lost.end(), [&](const NodeId& one) {
      return status.reason.find(one.short_text()) != std::string::npos ||
             std::find(status.waiting_for.begin(), status.waiting_for.end(), one) !=
                 status.waiting_for.end();
    });
    const bool no_copy = status.reason.starts_with("every copy of the durable checkpoint");
    const bool too_few = status.reason.starts_with("the job needs ") && able < options_.min_nodes;
    if (names_it || no_copy || too_few) result_.waits_for = status.reason;
  }
  return !result_.waits_for.empty();
}

// Those who are not lost can decide nothing in the newest view that any live node knows.
bool JobWorld::voters_are_lost() const {
  std::set<NodeId> voters;
  const Node* newest = nullptr;
  for (const Node& one : nodes_) {
    if (!one.lost) voters.insert(one.member.node);
    if (one.core && (!newest || one.core->view().view_id > newest->core->view().view_id))
      newest = &one;
  }
  return newest && !rules::may_decide(newest->core->view(), voters);
}

// The job stands still although nothing is wrong any more: somebody says whom it waits for.
void JobWorld::expect_visible_wait() {
  looked_ = now_;
  bool anybody = false;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].core || nodes_[node].finished) continue;
    anybody = true;
    const job::JobStatus status = nodes_[node].core->status(clock(node));
    if (!status.reason.empty() || !status.waiting_for.empty() || status.stall || status.stopped)
      return;
  }
  if (!anybody) return;
  checks_->breach(voters_are_lost() ? "silent: the voters are lost for good, and nobody says so"
                                    : "silent: the job stands still, and nobody says why");
}

void JobWorld::kill_job(std::size_t node) {
  Node& one = nodes_[node];
  if (!one.core) return;
  struck(node, Grey::dead_job);
  checks_->on_crash(one.member);
  lose_power(node);  // its last writes may not have begun
  one.core.reset();
  one.swim.reset();
  ++one.life;
  one.job_dead = true;
}

void JobWorld::spoil_checkpoint(std::size_t node) {
  Node& one = nodes_[node];
  if (one.saved.empty() || one.saved.back().bad) return;
  one.saved.back().bad = true;
  checks_->on_checkpoint_lost(id(node));
  struck(node, Grey::bad_checkpoint);
}

const JobWorld::Node::Saved* JobWorld::Node::saved_at(std::uint64_t step) const {
  const auto found = std::find_if(saved.rbegin(), saved.rend(),
                                  [&](const Saved& one) { return one.checkpoint.step == step; });
  return found == saved.rend() ? nullptr : &*found;
}

job::Checkpoint JobWorld::Node::newest_of(const view::View& view) const {
  for (auto one = saved.rbegin(); one != saved.rend(); ++one)
    if (!one->bad && view.descends_from(one->checkpoint.history, one->checkpoint.step))
      return one->checkpoint;
  return checkpoint();
}

// Every 50 ms each kind has its chance.
void JobWorld::grey_faults() {
  if (calm_) return;
  const auto chance = [&](Grey fault) {
    return rng_.chance(options_.grey[static_cast<std::size_t>(fault)] * 0.05);
  };
  const std::size_t count = nodes_.size();
  const auto for_long = [&] { return rng_.chance(0.3) ? 1h : between(1s, 60s); };
  for (std::size_t node = 0; node < count; ++node) {
    if (chance(Grey::hung_compute)) hang_compute(node, for_long());
    if (chance(Grey::hung_apply)) hang_apply(node, for_long());
    if (chance(Grey::stopped_clock)) pause(node, between(500ms, 8s), true);
    if (chance(Grey::lost_machine) && count > 1 && !has_lost_a_machine()) lose_machine(node);
    if (chance(Grey::dead_job) && alive(node)) {
      kill_job(node);
      if (rng_.chance(0.7)) schedule(now_ + between(1s, 20s), [this, node] { restart(node); });
    }
  }
  for (const Grey kind : {Grey::lasting_cut, Grey::late_cut}) {
    if (count < 2 || !chance(kind)) continue;
    const std::size_t a = rng_.below(count), b = (a + 1 + rng_.below(count - 1)) % count;
    set_cut(a, b, true);
    if (kind == Grey::late_cut) wires_[a][b].cut_until = Time{} + options_.fault_time + 60s;
    struck(a, kind);
  }
  if (count > 1 && chance(Grey::long_split)) {
    std::vector<std::pair<std::size_t, std::size_t>> cuts;
    std::vector<bool> side;
    for (std::size_t node = 0; node < count; ++node) side.push_back(rng_.chance(0.5));
    for (std::size_t x = 0; x < count; ++x)
      for (std::size_t y = 0; y < count; ++y)
        if (side[x] != side[y]) cuts.emplace_back(x, y);
    for (const auto& [from, to] : cuts) set_cut(from, to, true);
    if (!cuts.empty()) struck(0, Grey::long_split);
    schedule(now_ + between(14s, 40s), [this, cuts] {
      for (const auto& [from, to] : cuts) set_cut(from, to, false);
    });
  }
  schedule(now_ + 50ms, [this] { grey_faults(); });
}

}  // namespace gpunode::sim
