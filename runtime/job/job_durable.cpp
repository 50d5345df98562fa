// When a checkpoint is durable, in views of every kind: it is on the disks of two nodes, or of one
// where no other can hold it, and a quorum of those that vote on the next view has noted so on its
// own disks. From then on every view knows of it and none goes behind it (choose_rollback).
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kCopiesTake = std::chrono::seconds(10);  // until spare nodes stand as witnesses
}  // namespace

// A spare node that could hold copies, but does not come, is waited for no longer than that.
std::size_t JobCore::State::copies_wanted(Time at) {
  const view::View& view = agreement.view();
  bool others = view.members.size() > 1, unknown = false;
  for (const NodeId& node : view.acceptors) {
    if (!view.is_witness(node)) continue;
    const auto told = told_copies.find(node);
    unknown = unknown || told == told_copies.end();
    others = others || (told != told_copies.end() && told->second.keeps_copies);
  }
  if (others || broken("durable_on_one")) return broken("durable_on_one") ? 1 : 2;
  if (!unknown && spare_count() == 0) {
    lone_since.reset();
    return 1;
  }
  if (!lone_since) lone_since = at;
  return at < *lone_since + kCopiesTake ? 2 : 1;
}

// Nodes that have said to have this checkpoint, or a later one of the same history.
std::vector<NodeId> JobCore::State::holders_of(const view::CheckpointName& name) const {
  const view::View& view = agreement.view();
  const auto holds = [&](const view::CheckpointName& has) {
    return has >= name && has.step > 0 && view.descends_from(has.history, has.step);
  };
  std::vector<NodeId> nodes;
  if (holds(options.checkpoint.name())) nodes.push_back(options.self.node);
  for (const auto& [node, told] : told_copies)
    if (holds(told.checkpoint)) nodes.push_back(node);
  return nodes;
}

void JobCore::State::watch_durable(Time at, Actions& out) {
  const view::CheckpointName mine = options.checkpoint.name();
  if (!member || !is_of_history() || agreement.frozen()) return;
  view::CheckpointName newest = durable.name;
  const std::size_t wanted = copies_wanted(at);
  const auto consider = [&](const view::CheckpointName& name) {
    const bool ours =
        name.step <= committed && agreement.view().descends_from(name.history, name.step);
    if (name > newest && ours && holders_of(name).size() >= wanted) newest = name;
  };
  consider(mine);
  for (const auto& [node, told] : told_copies) consider(told.checkpoint);
  if (newest == durable.name) return;
  view::ViewAgreement::Effects effects;
  agreement.note_floor(at, {newest, holders_of(newest)}, effects);
  carry_out(at, effects, out);
}

void JobCore::State::on_noted(view::Floor floor, Actions& out) {
  if (floor.name <= durable.name) return;
  durable = std::move(floor);
  const std::size_t nodes = durable.holders.size();
  report("checkpoint of step " + std::to_string(durable.name.step) + " is durable: " +
             (nodes > 1 ? "on " + std::to_string(nodes) + " nodes"
                        : "on this node alone, as no other can hold a copy"),
         out);
}

}  // namespace gpunode::job
