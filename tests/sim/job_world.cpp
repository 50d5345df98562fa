#include "tests/sim/job_world.hpp"

#include <algorithm>
#include <cstdio>

namespace gpunode::sim {

using namespace std::chrono_literals;

namespace {

NodeId node_id(std::size_t index) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(index + 1);
  id.value[31] = static_cast<std::byte>(0x40 + index);
  return id;
}

}  // namespace

JobWorld::JobWorld(WorldOptions options)
    : options_(std::move(options)), rng_(options_.seed), storm_rng_(mix(options_.seed, 0x5707)) {
  nodes_.resize(options_.node_count);
  wires_.assign(options_.node_count, std::vector<Wire>(options_.node_count));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].member = {node_id(i), 1};
    nodes_[i].speed += options_.clock_drift * (Rng(mix(mix(options_.seed, 95), i)).uniform() - 0.5);
  }
  if (options_.twin_of) nodes_.back().member = nodes_[*options_.twin_of].member;
  if (has_storm(Storm::edge_clocks))
    for (Node& node : nodes_) node.speed = storm_rng_.chance(0.5) ? 0.95 : 1.05;
  result_.storm[static_cast<std::size_t>(Storm::edge_clocks)] = has_storm(Storm::edge_clocks);
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    disks_.emplace_back(VoteDisk::Options{mix(mix(options_.seed, 96), i), options_.names_first,
                                          options_.disk_mutations});
  for (std::size_t i = 0; i < options_.candidate_count; ++i) candidates_.push_back(node_id(i));
  view::View first;
  first.job = Digest{7, options_.model.seed};
  first.acceptors = candidates_;
  first.tie = candidates_.front();
  JobChecks::Rules rules;
  rules.min_nodes = options_.min_nodes;
  rules.only_effects = options_.only_effects;
  rules.inexact = options_.is_inexact();
  rules.none = options_.twin_of.has_value();
  checks_.emplace(options_.model, first, rules);
  result_.planned = options_.planned;
}

void JobWorld::note(std::size_t node, const std::string& text) const {
  if (!options_.trace) return;
  std::printf("%9.3f  n%zu  %s\n", std::chrono::duration<double>(now_.time_since_epoch()).count(),
              node, text.c_str());
}

Duration JobWorld::between(Duration low, Duration high) {
  return low + Duration(static_cast<std::int64_t>(
                   rng_.below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}

void JobWorld::schedule(Time when, std::function<void()> act) {
  events_.push({when, order_++, std::move(act)});
}

void JobWorld::at(Duration when, std::function<void()> act) {
  schedule(Time{} + when, std::move(act));
}

// Something that happens inside a node: void once its process is gone, late while it is paused.
void JobWorld::on_node(std::size_t node, Duration delay, std::function<void()> act) {
  const std::uint64_t life = nodes_[node].life;
  schedule(now_ + delay, [this, node, life, act = std::move(act)] {
    Node& one = nodes_[node];
    if (one.life != life || !one.core) return;
    if (now_ < one.paused_until)
      one.while_paused.push_back(act);
    else
      act();
  });
}

std::size_t JobWorld::index_of(const NodeId& id) const {
  return static_cast<std::size_t>(id.value[0]) - 1;
}

void JobWorld::crash(std::size_t node) {
  Node& one = nodes_[node];
  if (!one.core) return;
  ++result_.crashes;
  note(node, "CRASH");
  checks_->on_crash(one.member);
  lose_power(node);
  one.core.reset();
  one.swim.reset();
  ++one.life;
  const bool refused = rng_.chance(options_.refused);
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other == node) continue;
    if (rng_.chance(0.5)) ++wires_[node][other].connection;  // what it had sent may be lost
    if (!refused || wires_[node][other].cut || wires_[other][node].cut) continue;
    on_node(other, between(1ms, 60ms), [this, node, other] {
      if (nodes_[node].core) return;
      tell_swim(other, node, LinkState::reset);
      tell_swim(other, node, LinkState::refused);
      nodes_[other].seen[node] = PeerHealth::dead;
      tell_link(other, node, LinkState::refused);
    });
  }
}

void JobWorld::restart(std::size_t node) {
  Node& one = nodes_[node];
  if (one.core || one.lost) return;
  if (is_idle(node)) return;  // knows nothing of the job yet
  if (!read_votes(node)) return;
  ++one.member.boot;
  start(node);
}

// Of a node that lives twice each other one sees one life.
bool JobWorld::sees(std::size_t node, std::size_t other) const {
  if (!options_.twin_of) return true;
  const std::size_t twin = nodes_.size() - 1, first = *options_.twin_of;
  const auto in_side = [&](std::size_t one) {
    return one == twin || options_.twin_side.contains(one);
  };
  const bool is_twin = node == twin || other == twin, is_first = node == first || other == first;
  if (is_twin && is_first) return false;
  if (is_twin) return in_side(node) && in_side(other);
  return !is_first || (!in_side(node) && !in_side(other));
}

void JobWorld::pause(std::size_t node, Duration how_long, bool clock_too) {
  Node& one = nodes_[node];
  if (!one.core || now_ < one.paused_until) return;
  note(node, "paused");
  if (clock_too) {
    struck(node, Grey::stopped_clock);
    checks_->on_clock_stopped(one.member);
    one.stopped +=
        Duration(static_cast<std::int64_t>(static_cast<double>(how_long.count()) * one.speed));
  }
  one.paused_since = now_;
  one.paused_until = now_ + how_long;
  const std::uint64_t life = one.life;
  schedule(one.paused_until, [this, node, life] {
    Node& again = nodes_[node];
    if (again.life != life) return;
    again.stuck = false;
    note(node, "goes on");
    for (std::size_t peer = 0; peer < nodes_.size(); ++peer)
      if (peer != node && !wires_[node][peer].cut && !wires_[peer][node].cut)
        wires_[node][peer].contact = now_;
    std::vector<std::function<void()>> missed;
    missed.swap(again.while_paused);
    for (const auto& act : missed)
      if (again.life == life && again.core) act();
  });
}

void JobWorld::leave(std::size_t node, Duration timeout) {
  note(node, "is asked to leave");
  Node& one = nodes_[node];
  const Time by = now_ + timeout;
  if (!one.leaves || by < one.leave_by) {  // asked again, the earlier end stands
    one.leave_by = by;
    one.timeout = timeout;
  }
  one.leaves = true;
  feed(node, input_of(Answer::leave),
       [&](job::Actions& out) { nodes_[node].core->request_leave(clock(node), timeout, out); });
}

void JobWorld::end_process(std::size_t node) {
  Node& one = nodes_[node];
  ++result_.leaves;
  note(node, "LEFT");
  const view::View& view = one.core->view();
  const bool others = view.view_id > 0 && !is_missed(node);
  const job::Phase phase = one.core->status(clock(node)).phase;
  // After the last step there is nothing more to hold.
  const bool holder = !one.finished && view.members.size() == 1 && view.has_member(one.member) &&
                      phase != job::Phase::done && phase != job::Phase::syncing;
  const bool disk_failed = one.checkpoints_fail != Time{} && now_ <= one.checkpoints_fail + 30s;
  if (holder && one.timeout >= 1s && !disk_failed &&
      one.newest_of(view).step != one.core->committed())
    checks_->breach("14: the last holder of a state has left without making it durable");
  crash(node);
  --result_.crashes;
  one.gone = others && rng_.chance(0.5);
  one.hurried = now_ >= one.leave_by;
  one.coming = !one.gone;
  if (one.coming) schedule(now_ + between(1s, 4s), [this, node] { restart(node); });
}

void JobWorld::set_cut(std::size_t from, std::size_t to, bool cut) {
  if (wires_[from][to].cut != cut)
    note(from, (cut ? "CUT to n" : "healed to n") + std::to_string(to));
  wires_[from][to].cut = cut;
  if (!cut) break_link(from, to);
}

// The connection is made anew: what was under way is lost, both sides are told.
void JobWorld::break_link(std::size_t a, std::size_t b) {
  ++wires_[a][b].connection;
  ++wires_[b][a].connection;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)})
    on_node(self, between(1ms, 20ms), [this, self = self, peer = peer] {
      if (wires_[self][peer].cut || wires_[peer][self].cut || !nodes_[peer].core) return;
      if (!sees(self, peer)) return;
      wires_[peer][self].delivered = now_;  // a new link counts as a word of the peer
      tell_swim(self, peer, LinkState::up);
      tell_link(self, peer, LinkState::up);
    });
}

void JobWorld::feed(std::size_t node, Input kind, const std::function<void(job::Actions&)>& input) {
  if (!nodes_[node].core) return;
  if (options_.coverage) options_.coverage->met(nodes_[node].core->status(clock(node)).phase, kind);
  job::Actions actions;
  input(actions);
  carry_out(node, std::move(actions));
}

void JobWorld::carry_out(std::size_t node, job::Actions actions) {
  const std::uint64_t life = nodes_[node].life;
  for (job::Action& action : actions) {
    if (nodes_[node].life != life || !nodes_[node].core) return;  // a planned fault has struck
    carry_out_one(node, action);
  }
}

void JobWorld::go_on_alone(std::size_t node) {
  const std::uint64_t life = nodes_[node].life;
  schedule(now_ + between(1ms, 30ms), [this, node, life] {
    if (nodes_[node].life != life || !nodes_[node].core) return;
    nodes_[node].forcing_until = now_ + 5s;
    feed(node, input_of(Answer::recover),
         [&](job::Actions& out) { nodes_[node].core->go_on_alone(clock(node), out); });
  });
}

// The spare node is called, fetches the manifest and starts its part.
void JobWorld::recruit(std::size_t node, std::size_t spare) {
  note(node, "asks n" + std::to_string(spare) + " to be a witness");
  if (wires_[node][spare].cut || !is_idle(spare)) return;
  schedule(now_ + between(5ms, 100ms), [this, spare] {
    if (!is_idle(spare)) return;
    nodes_[spare].recruited = true;
    start(spare);
  });
}

void JobWorld::carry_out_one(std::size_t node, job::Action& action) {
  Node& one = nodes_[node];
  if (auto* message = std::get_if<job::Send>(&action)) {
    checks_->on_send(one.member, message->message, disks_[node].answered());
    if (const auto* vote = std::get_if<job::Vote>(&message->message.body))
      if (std::holds_alternative<view::Prepare>(vote->message) && one.forcing_until < now_ &&
          !has_storm(Storm::slow_votes))
        checks_->on_prepare(one.member, name_of(message->message), heard_by(node));
    send(node, *message);
    moments_of(node, message->message);
  } else if (auto* write = std::get_if<job::Persist>(&action)) {
    persist(node, *write);
    moment(node, Moment::before_durable);
  } else if (auto* wish = std::get_if<job::Compute>(&action)) {
    compute(node, *wish);
  } else if (auto* group = std::get_if<job::OpenGroup>(&action)) {
    open_group(node, *group);
  } else if (auto* over = std::get_if<job::CloseGroup>(&action)) {
    close_group(node, *over);
  } else if (auto* part = std::get_if<job::SpeculativeUpdate>(&action)) {
    checks_->on_speculative_update(one.member, *part);
  } else if (auto* applied = std::get_if<job::Apply>(&action)) {
    apply(node, *applied);
  } else if (auto* committed = std::get_if<job::Committed>(&action)) {
    commit(node, *committed);
  } else if (auto* read = std::get_if<job::ReadState>(&action)) {
    read_state(node, *read);
  } else if (auto* install = std::get_if<job::InstallState>(&action)) {
    install_state(node, *install);
  } else if (auto* restore = std::get_if<job::RestoreState>(&action)) {
    restore_state(node, *restore);
  } else if (auto* installed = std::get_if<job::ViewInstalled>(&action)) {
    enter_view(node, *installed);
  } else if (std::get_if<job::LostQuorum>(&action)) {
    go_on_alone(node);
  } else if (auto* paused = std::get_if<job::Paused>(&action)) {
    note(node, "paused: " + paused->reason);
  } else if (const auto* stopped = std::get_if<job::Stopped>(&action)) {
    note(node, "stopped after step " + std::to_string(stopped->step));
    with_state(node, [this, node] { write_checkpoint(node); });
    late_moment(node, LateMoment::stopped);
  } else if (const auto* asked = std::get_if<job::Recruit>(&action)) {
    recruit(node, index_of(asked->node));
  } else if (auto* save = std::get_if<job::SaveState>(&action)) {
    save_state(node, *save);
  } else if (const auto* saved = std::get_if<job::ReadSaved>(&action)) {
    read_saved(node, *saved);
  } else if (const auto* copy = std::get_if<job::KeepCopy>(&action)) {
    keep_copy(node, *copy);
  } else if (std::get_if<job::Left>(&action)) {
    end_process(node);
  } else if (std::get_if<job::Finished>(&action)) {
    note(node, "finished");
    one.finished = true;
    if (options_.checkpoint_every > 0 && one.core->committed() == options_.model.total_steps)
      with_state(node, [this, node] { write_checkpoint(node), store_outcome(node); });
    late_moment(node, LateMoment::finished);
  } else if (const auto* old = std::get_if<job::GiveUpCheckpoints>(&action)) {
    give_up_checkpoints(node, *old);
  } else if (const auto* found = std::get_if<job::Incident>(&action)) {
    note(node, found->text);
    auto& seen = found->event == "voted_twice" ? result_.exposed : result_.yielded;
    seen.emplace_back(node, found->node);
  } else if (auto* text = std::get_if<job::Report>(&action)) {
    note(node, text->text);
  }
}

void JobWorld::commit(std::size_t node, const job::Committed& commit) {
  Node& one = nodes_[node];
  note(node, "commits " + std::to_string(commit.step));
  if (commit_times_.emplace(commit.step, now_).second) progress_ = now_;
  checks_->on_committed(one.member, commit, one.core->status(clock(node)).phase);
  moment(node, Moment::on_commit);
  if (commit.step == options_.model.total_steps) late_moment(node, LateMoment::last_step);
}

// What a person sees who looks at the job on this node.
void JobWorld::look(std::size_t node) {
  const job::JobStatus status = nodes_[node].core->status(clock(node));
  checks_->on_report(nodes_[node].member, status);
  result_.durable = std::max(result_.durable, status.durable.name.step);
}

void JobWorld::enter_view(std::size_t node, const job::ViewInstalled& installed) {
  const view::View& view = installed.view;
  std::string who, voters, holders;
  for (const view::Member& member : view.members)
    who += " n" + std::to_string(index_of(member.node)) + "/" + std::to_string(member.boot);
  for (const NodeId& voter : view.acceptors) voters += " n" + std::to_string(index_of(voter));
  for (const NodeId& holder : view.floor.holders)
    holders += " n" + std::to_string(index_of(holder));
  note(node, "VIEW " + std::to_string(view.view_id) + " base " + std::to_string(view.base_step) +
                 told(view) + holders + (view.stopped ? " STOPPED" : "") + " members" + who +
                 " acceptors" + voters + " role " +
                 std::to_string(static_cast<int>(installed.role)));
  result_.disagreements = std::max<std::uint64_t>(result_.disagreements, view.owner_rotation);
  for (const NodeId& voter : view.acceptors)
    if (view.is_witness(voter)) witnessed_.insert(name_of(view));
  checks_->on_view(nodes_[node].member, view, installed.role);
  const job::Checkpoint& told = nodes_[node].core->checkpoint();
  if (!view.descends_from(told.history, told.step))
    on_node(node, between(1ms, 30ms), [this, node] {
      const job::Checkpoint found = nodes_[node].newest_of(nodes_[node].core->view());
      if (found.step > 0)
        feed(node, input_of(Answer::checkpoint),
             [&](job::Actions&) { nodes_[node].core->set_checkpoint(found); });
    });
  late_moment(node, view.restores ? LateMoment::rollback : LateMoment::any_view);
}

void JobWorld::compute(std::size_t node, const job::Compute& wish) {
  Node& one = nodes_[node];
  if (one.computing_step != wish.step || wish.discard_kept) {
    one.computing.clear();
    one.times = {};
  }
  one.computing_step = wish.step;
  one.compute_id = wish.id;
  one.carrying.reset();
  if (wish.carry)
    one.carrying = Carrying{.compute_id = wish.id,
                            .step = wish.step,
                            .wish = *wish.carry,
                            .view = one.core->view().name(),
                            .done = {}};
  one.salt = checks_->salt(history_of(one.core->view()), wish.step);
  if (one.state_step + 1 != wish.step) {
    checks_->breach("Compute before the state is in place");
    return;
  }
  for (const collective::TreeNode& tree_node : wish.nodes) {
    computed_.insert(one.member.node);
    const bool again = !one.computing.insert(tree_node).second;
    if (again) continue;
    const std::uint32_t slices = options_.model.tree.width(tree_node.level);
    Duration takes = between(options_.compute_low, options_.compute_high);
    if (!options_.slice_times.empty()) {
      takes = options_.slice_times[node] * slices * static_cast<int>(rng_.below(11) + 95) / 100;
      one.compute_free = std::max(one.compute_free, now_) + takes;
    } else {
      one.compute_free = now_ + takes;
    }
    auto tell = std::make_shared<std::function<void()>>();
    *tell = [this, node, tree_node, step = wish.step, slices, takes, weak = std::weak_ptr(tell)] {
      Node& self = nodes_[node];
      if (self.state_step + 1 != step || self.computing_step != step) return;
      if (now_ < self.compute_hangs) {  // it may end sooner than was planned
        const auto again = weak.lock();
        return on_node(node, 100ms, [again] { (*again)(); });
      }
      if (self.computing.erase(tree_node) == 0) return;
      self.times.compute_us += collective::microseconds(takes);
      self.times.slices = static_cast<std::uint16_t>(self.times.slices + slices);
      if (self.carrying) {
        self.carrying->done.push_back(tree_node);
        if (self.carrying->goes_on_by_messages) return tell_sum(node, tree_node);
        return carry(node);
      }
      const auto sum = options_.model.node_sum(self.state_digest, step, tree_node, self.salt);
      const auto data_fingerprint = options_.model.node_fed(step, tree_node);
      // Whole or in two ranges, the last elements first.
      const std::uint64_t cut = rng_.below(sum.size() + 1);
      feed(node, input_of(Answer::partial), [&](job::Actions& out) {
        for (const auto& [first, count] :
             {std::pair(cut, sum.size() - cut), std::pair(std::uint64_t{0}, cut)})
          self.core->on_partial(
              clock(node),
              {self.compute_id, step, tree_node, sum, data_fingerprint, first, count, self.times},
              out);
      });
    };
    if (now_ < one.compute_hangs) struck(node, Grey::hung_compute);
    on_node(node, one.compute_free - now_, [tell] { (*tell)(); });
  }
  if (one.carrying && wish.nodes.empty())
    on_node(node, between(1ms, 5ms), [this, node, id = wish.id] {
      if (nodes_[node].carrying && nodes_[node].carrying->compute_id == id) carry(node);
    });
}

}  // namespace gpunode::sim
