// What the nodes of the simulated world do with the state of the job: update it, save it, hand it
// out and take it over, one after another and each after a while.
#include "runtime/base/block_digest.hpp"
#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

// Operations on the state happen one after another, in the order of their actions.
void JobWorld::with_state(std::size_t node, std::function<void()> act) {
  Node& one = nodes_[node];
  one.state_free =
      std::max(one.state_free, now_) + between(options_.apply_low, options_.apply_high);
  if (now_ < one.apply_hangs) struck(node, Grey::hung_apply);
  one.state_acts.push_back(std::move(act));
  on_node(node, one.state_free - now_, [this, node] { act_on_state(node); });
}

// The next one that waits; it may hang, and end sooner than was planned.
void JobWorld::act_on_state(std::size_t node) {
  Node& one = nodes_[node];
  if (now_ < one.apply_hangs) return on_node(node, 100ms, [this, node] { act_on_state(node); });
  const std::function<void()> act = std::move(one.state_acts.front());
  one.state_acts.pop_front();
  act();
}

void JobWorld::apply(std::size_t node, const job::Apply& apply) {
  checks_->on_apply(nodes_[node].member, apply);
  if (apply.learning) {
    ++result_.followed;
    checks_->on_followed(nodes_[node].member, apply);
  }
  with_state(node, [this, node, apply] {
    Node& self = nodes_[node];
    if (self.state_step + 1 != apply.step) {
      checks_->breach("Apply of another step than the next");
      return;
    }
    JobModel::apply(self.state, apply.step, *apply.result);
    self.state_step = apply.step;
    self.state_digest = block_digest_of(options_.model.bytes_of_state(self.state).view);
    checks_->on_state(self.member, apply.step, self.state_digest);
    if (!apply.learning && options_.checkpoint_every > 0 &&
        apply.step % options_.checkpoint_every == 0)
      write_checkpoint(node);
    feed(node, input_of(Answer::applied), [&](job::Actions& out) {
      self.core->on_applied(clock(node), apply.step, self.state_digest, out);
    });
  });
}

void JobWorld::write_checkpoint(std::size_t node) {
  Node& self = nodes_[node];
  const auto checkpoint = checkpoint_of(*self.core, self.state_step, self.state_digest,
                                        truth_of(options_.model).running[self.state_step]);
  if (!checkpoint || self.state_step == 0 || self.checkpoint().name() >= checkpoint->name()) return;
  if (self.core->gives_way()) return;
  if (now_ < self.checkpoints_fail) return;
  Duration takes = self.checkpoint_takes;
  if (strikes(Grey::slow_checkpoint)) {
    takes = std::max(takes, between(500ms, 10s));
    struck(node, Grey::slow_checkpoint);
  }
  if (takes == Duration{}) return keep_checkpoint(node, *checkpoint, self.state);
  on_node(node, takes, [this, node, checkpoint, state = self.state] {
    if (nodes_[node].checkpoint().name() < checkpoint->name())
      keep_checkpoint(node, *checkpoint, state);
  });
}

void JobWorld::keep_checkpoint(std::size_t node, const job::Checkpoint& checkpoint,
                               std::vector<float> state) {
  Node& self = nodes_[node];
  self.saved.push_back({checkpoint, std::move(state)});
  remove_old(node);
  checks_->on_checkpoint(self.member, checkpoint);
  store_outcome(node);
  if (strikes(Grey::bad_checkpoint)) spoil_checkpoint(node);
  feed(node, input_of(Answer::checkpoint),
       [&](job::Actions&) { self.core->set_checkpoint(checkpoint); });
}

void JobWorld::store_outcome(std::size_t node) {
  Node& self = nodes_[node];
  if (self.finished && !options_.loses_outcomes &&
      self.checkpoint().step == options_.model.total_steps)
    self.outcome = self.checkpoint();
}

// The newest stay, and those that the core asks for.
void JobWorld::remove_old(std::size_t node) {
  Node& self = nodes_[node];
  const std::vector<view::CheckpointName> kept = self.core->kept();
  for (std::size_t newer = self.saved.size(); newer > options_.checkpoints_kept; --newer) {
    const auto old = std::find_if(self.saved.begin(), self.saved.end() - options_.checkpoints_kept,
                                  [&](const Node::Saved& one) {
                                    return std::find(kept.begin(), kept.end(),
                                                     one.checkpoint.name()) == kept.end();
                                  });
    if (old == self.saved.end() - options_.checkpoints_kept) return;
    self.saved.erase(old);
    struck(node, Grey::removed);
  }
}

// It cannot be read: the core is told what is left.
void JobWorld::lose_saved(std::size_t node, std::uint64_t step) {
  Node& self = nodes_[node];
  note(node, "the checkpoint of step " + std::to_string(step) + " cannot be read");
  const Node::Saved* bad = self.saved_at(step);
  view::CheckpointName lost{{}, step};
  if (bad) lost = bad->checkpoint.name();
  std::erase_if(self.saved, [](const Node::Saved& one) { return one.bad; });
  const job::Checkpoint newest = self.newest_of(self.core->view());
  if (newest.step > 0) checks_->on_checkpoint(self.member, newest);
  feed(node, input_of(Answer::checkpoint),
       [&](job::Actions& out) { self.core->on_checkpoint_lost(clock(node), lost, newest, out); });
}

void JobWorld::give_up_checkpoints(std::size_t node, const job::GiveUpCheckpoints& order) {
  on_node(node, between(1ms, 50ms), [this, node, order] {
    Node& self = nodes_[node];
    std::erase_if(self.saved, [&](const Node::Saved& one) {
      return one.checkpoint.history == order.history && one.checkpoint.step > order.after;
    });
    feed(node, input_of(Answer::checkpoint), [&](job::Actions& out) {
      self.core->on_given_up(clock(node), self.newest_of(self.core->view()), out);
    });
  });
}

void JobWorld::save_state(std::size_t node, const job::SaveState& save) {
  with_state(node, [this, node, save] {
    Node& self = nodes_[node];
    if (self.state_step != save.step) {
      checks_->breach("asked to save another state than the one that is here");
      return;
    }
    const auto checkpoint = checkpoint_of(*self.core, save.step, self.state_digest,
                                          truth_of(options_.model).running[save.step]);
    if (checkpoint && now_ >= self.checkpoints_fail) keep_checkpoint(node, *checkpoint, self.state);
  });
}

void JobWorld::read_state(std::size_t node, const job::ReadState& read) {
  with_state(node, [this, node, read] {
    feed(node, input_of(Answer::state_read), [&](job::Actions& out) {
      Node& self = nodes_[node];
      if (self.state_step != read.step) return;
      self.core->on_state_read(clock(node), read.token, options_.model.bytes_of_state(self.state),
                               out);
    });
  });
}

void JobWorld::install_state(std::size_t node, const job::InstallState& install) {
  ++result_.learners;
  const HistoryId in = checks_->history(nodes_[node].member);
  with_state(node, [this, node, install, in] {
    Node& self = nodes_[node];
    const auto* values = reinterpret_cast<const float*>(install.state.view.data());
    self.state.assign(values, values + options_.model.element_count);
    self.state_step = install.step;
    self.state_digest = block_digest_of(install.state.view);
    checks_->on_install(self.member, in, install.step, self.state_digest, false);
    checks_->on_installed(self.member);
    feed(node, input_of(Answer::state_installed),
         [&](job::Actions& out) { self.core->on_state_installed(clock(node), install.step, out); });
  });
}

// A disk that hangs may come to it after retention has removed what was asked for.
void JobWorld::restore_state(std::size_t node, const job::RestoreState& restore) {
  if (restore.step != 0 && !nodes_[node].saved_at(restore.step))
    return checks_->breach("asked for the checkpoint of step " + std::to_string(restore.step) +
                           ", which this node does not have");
  const HistoryId in = checks_->history(nodes_[node].member);
  with_state(node, [this, node, restore, in] {
    Node& self = nodes_[node];
    const Node::Saved* saved = self.saved_at(restore.step);
    if (restore.step != 0 && (!saved || saved->bad)) {
      return lose_saved(node, restore.step);
    }
    self.state = restore.step == 0 ? options_.model.initial_state() : saved->state;
    self.state_step = restore.step;
    self.state_digest = block_digest_of(options_.model.bytes_of_state(self.state).view);
    checks_->on_install(self.member, in, restore.step, self.state_digest, true);
    checks_->on_installed(self.member);
    feed(node, input_of(Answer::state_installed),
         [&](job::Actions& out) { self.core->on_state_installed(clock(node), restore.step, out); });
  });
}

// A member's checkpoint for a witness; the disk is as slow as it likes.
void JobWorld::read_saved(std::size_t node, const job::ReadSaved& read) {
  on_node(node, between(1ms, 30ms), [this, node, read] {
    const Node::Saved* saved = nodes_[node].saved_at(read.step);
    SharedBytes bytes;
    if (saved && strikes(Grey::failed_read))
      struck(node, Grey::failed_read);
    else if (saved && !saved->bad)
      bytes = options_.model.bytes_of_state(saved->state);
    feed(node, input_of(Answer::saved_read), [&](job::Actions& out) {
      nodes_[node].core->on_saved_read(clock(node), read.token, bytes, out);
    });
    if (!saved || saved->bad) lose_saved(node, read.step);
  });
}

void JobWorld::keep_copy(std::size_t node, const job::KeepCopy& copy) {
  const Duration takes = std::max(nodes_[node].checkpoint_takes, between(1ms, 30ms));
  on_node(node, takes, [this, node, copy] {
    Node& self = nodes_[node];
    if (copy.checkpoint.name() <= self.checkpoint().name() || now_ < self.checkpoints_fail) return;
    const auto* values = reinterpret_cast<const float*>(copy.state.view.data());
    ++result_.copies;
    note(node, "holds a copy of the checkpoint of step " + std::to_string(copy.checkpoint.step));
    keep_checkpoint(node, copy.checkpoint, {values, values + options_.model.element_count});
  });
}

}  // namespace gpunode::sim
