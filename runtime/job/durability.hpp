// When a checkpoint is durable, in views of every kind: it is on the disks of two nodes, or of one
// where no other can hold it, and a quorum of those that vote on the next view has noted so on its
// own disks. From then on every view knows of it and none goes behind it (choose_rollback). Pure;
// owned by a JobCore.
//
//   of a checkpoint | told by enough nodes | noted by a quorum | view
//   written         | to be noted          | -                 | -
//   to be noted     | -                    | durable, told     | written
//   durable         | -                    | -                 | durable; what the view's floor is
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Durability {
 public:
  explicit Durability(const JobContext& job) : job_(job), floor_(job.view().floor) {}

  // What a node says of its disk.
  void on_told(const NodeId& from, const LeaseGrant& told);
  // The checkpoint that is on enough nodes by now and not noted yet. `spares`: nodes that could
  // stand as witnesses and hold copies.
  std::optional<view::Floor> to_note(std::size_t spares);
  void on_noted(view::Floor floor, Actions& out);
  void on_view();
  void on_history() { floor_ = job_.view().floor; }

  // The newest checkpoint that no view goes behind.
  const view::Floor& floor() const { return floor_; }
  bool is_durable(const Checkpoint& checkpoint) const { return floor_.name >= checkpoint.name(); }
  bool is_told_by(const NodeId& node, const view::CheckpointName& name) const;
  // Nodes that have said to have this checkpoint, or a later one of the same history.
  std::vector<NodeId> holders_of(const view::CheckpointName& name) const;

 private:
  std::size_t copies_wanted(std::size_t spares);

  const JobContext& job_;
  view::Floor floor_;
  std::map<NodeId, LeaseGrant> told_;  // what each other node said last
  std::optional<Time> lone_since_;     // spare nodes are there, and none holds copies yet
};

}  // namespace gpunode::job
