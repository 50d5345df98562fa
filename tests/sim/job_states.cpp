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
  on_node(node, one.state_free - now_, std::move(act));
}

void JobWorld::apply(std::size_t node, const job::Apply& apply) {
  checks_->on_apply(nodes_[node].member, apply);
  if (apply.learning) {
    ++result_.followed;
    checks_->on_followed(nodes_[node].member, apply, nodes_[node].core->view().rollback_count);
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
    feed(node, [&](job::Actions& out) {
      self.core->on_applied(clock(node), apply.step, self.state_digest, out);
    });
  });
}

void JobWorld::write_checkpoint(std::size_t node) {
  Node& self = nodes_[node];
  const std::optional<std::uint64_t> lineage = self.core->state_epoch();
  if (!lineage) return;
  const std::uint64_t epoch = *lineage;
  if (self.state_step == 0 ||
      self.checkpoint.name() >= view::CheckpointName{epoch, self.state_step})
    return;
  self.checkpoint = {self.state_step, self.state_digest,
                     truth_of(options_.model).running[self.state_step], epoch};
  self.checkpoint_state = self.state;
  self.core->set_checkpoint(self.checkpoint);
}

void JobWorld::save_state(std::size_t node, const job::SaveState& save) {
  with_state(node, [this, node, save] {
    Node& self = nodes_[node];
    if (self.state_step != save.step) {
      checks_->breach("asked to save another state than the one that is here");
      return;
    }
    const view::View& view = self.core->view();
    self.checkpoint = {save.step, self.state_digest, truth_of(options_.model).running[save.step],
                       view::checkpoint_epoch(view.generation, view.rollback_count)};
    self.checkpoint_state = self.state;
    self.core->set_checkpoint(self.checkpoint);
  });
}

void JobWorld::read_state(std::size_t node, const job::ReadState& read) {
  with_state(node, [this, node, read] {
    feed(node, [&](job::Actions& out) {
      Node& self = nodes_[node];
      if (self.state_step != read.step) return;
      self.core->on_state_read(clock(node), read.token, options_.model.bytes_of_state(self.state),
                               out);
    });
  });
}

void JobWorld::install_state(std::size_t node, const job::InstallState& install) {
  ++result_.learners;
  with_state(node, [this, node, install] {
    Node& self = nodes_[node];
    const auto* values = reinterpret_cast<const float*>(install.state.view.data());
    self.state.assign(values, values + options_.model.element_count);
    self.state_step = install.step;
    self.state_digest = block_digest_of(install.state.view);
    checks_->on_install(self.member, install.step, self.state_digest);
    checks_->on_installed(self.member);
    feed(node,
         [&](job::Actions& out) { self.core->on_state_installed(clock(node), install.step, out); });
  });
}

void JobWorld::restore_state(std::size_t node, const job::RestoreState& restore) {
  with_state(node, [this, node, restore] {
    Node& self = nodes_[node];
    if (restore.step != 0 && restore.step != self.checkpoint.step) {
      checks_->breach("asked for a checkpoint that this node does not have");
      return;
    }
    self.state = restore.step == 0 ? options_.model.initial_state() : self.checkpoint_state;
    self.state_step = restore.step;
    self.state_digest = block_digest_of(options_.model.bytes_of_state(self.state).view);
    checks_->on_install(self.member, restore.step, self.state_digest);
    checks_->on_installed(self.member);
    feed(node,
         [&](job::Actions& out) { self.core->on_state_installed(clock(node), restore.step, out); });
  });
}

// A member's checkpoint for a witness; the disk is as slow as it likes.
void JobWorld::read_saved(std::size_t node, const job::ReadSaved& read) {
  on_node(node, between(1ms, 30ms), [this, node, read] {
    feed(node, [&](job::Actions& out) {
      Node& self = nodes_[node];
      SharedBytes bytes;
      if (self.checkpoint.step == read.step)
        bytes = options_.model.bytes_of_state(self.checkpoint_state);
      self.core->on_saved_read(clock(node), read.token, bytes, out);
    });
  });
}

void JobWorld::keep_copy(std::size_t node, const job::KeepCopy& copy) {
  on_node(node, between(1ms, 30ms), [this, node, copy] {
    Node& self = nodes_[node];
    if (copy.checkpoint.name() <= self.checkpoint.name()) return;
    const auto* values = reinterpret_cast<const float*>(copy.state.view.data());
    self.checkpoint = copy.checkpoint;
    self.checkpoint_state.assign(values, values + options_.model.element_count);
    ++result_.copies;
    note(node, "holds a copy of the checkpoint of step " + std::to_string(copy.checkpoint.step));
    self.core->set_checkpoint(self.checkpoint);
  });
}

}  // namespace gpunode::sim
