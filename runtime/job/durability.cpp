#include "runtime/job/durability.hpp"

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kCopiesTake = std::chrono::seconds(10);  // until spare nodes stand as witnesses
}  // namespace

void Durability::on_told(const NodeId& from, const LeaseGrant& told) {
  if (!job_.view().has_part(from)) return;  // anybody could say so
  LeaseGrant& known = told_[from];
  if (told.asked >= known.asked) known = told;
}

bool Durability::is_told_by(const NodeId& node, const view::CheckpointName& name) const {
  const auto found = told_.find(node);
  return found != told_.end() && found->second.checkpoint >= name;
}

// A spare node that could hold copies, but does not come, is waited for no longer than that.
std::size_t Durability::copies_wanted(std::size_t spares) {
  const view::View& view = job_.view();
  bool others = view.members.size() > 1, unknown = false;
  for (const NodeId& node : view.acceptors) {
    if (!view.is_witness(node)) continue;
    const auto told = told_.find(node);
    unknown = unknown || told == told_.end();
    others = others || (told != told_.end() && told->second.keeps_copies);
  }
  if (broken("durable_on_one")) return 1;
  if (others) return 2;
  if (!unknown && spares == 0) {
    lone_since_.reset();
    return 1;
  }
  if (!lone_since_) lone_since_ = job_.now;
  return job_.now < *lone_since_ + kCopiesTake ? 2 : 1;
}

std::vector<NodeId> Durability::holders_of(const view::CheckpointName& name) const {
  const auto holds = [&](const view::CheckpointName& has) {
    return has >= name && has.step > 0 && job_.view().descends_from(has.history, has.step);
  };
  std::vector<NodeId> nodes;
  if (holds(job_.checkpoint.name())) nodes.push_back(job_.self());
  for (const auto& [node, told] : told_)
    if (holds(told.checkpoint)) nodes.push_back(node);
  return nodes;
}

std::optional<view::Floor> Durability::to_note(std::size_t spares) {
  if (!job_.member || !job_.is_of_history() || job_.agreement.frozen()) return std::nullopt;
  view::CheckpointName newest = floor_.name;
  const std::size_t wanted = copies_wanted(spares);
  const auto consider = [&](const view::CheckpointName& name) {
    const bool ours = name.step <= job_.progress.committed() &&
                      job_.view().descends_from(name.history, name.step);
    if (name > newest && ours && holders_of(name).size() >= wanted) newest = name;
  };
  consider(job_.checkpoint.name());
  for (const auto& [node, told] : told_) consider(told.checkpoint);
  if (newest == floor_.name) return std::nullopt;
  return view::Floor{newest, holders_of(newest)};
}

void Durability::on_noted(view::Floor floor, Actions& out) {
  if (floor.name <= floor_.name) return;
  floor_ = std::move(floor);
  const std::size_t nodes = floor_.holders.size();
  job_.report("checkpoint of step " + std::to_string(floor_.name.step) + " is durable: " +
                  (nodes > 1 ? "on " + std::to_string(nodes) + " nodes"
                             : "on this node alone, as no other can hold a copy"),
              out);
}

void Durability::on_view() {
  if (job_.view().floor.name > floor_.name) floor_ = job_.view().floor;
  lone_since_.reset();
}

}  // namespace gpunode::job
