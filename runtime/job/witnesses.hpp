// Witnesses: spare nodes that vote and do not compute. Members look for them, a spare node offers
// itself, and the next view names it; one that dies is replaced by a view change. Pure; owned by a
// JobCore.
//
//   of a node | offers itself | silent for 10 s | leaves, left out | view names it
//   unknown   | candidate     | -               | not asked        | -
//   candidate | fresh again   | unknown         | not asked        | witness
//   witness   | lives         | to be replaced  | to be replaced   | stays
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Witnesses {
 public:
  explicit Witnesses(const JobContext& job) : job_(job) {}

  void set_spares(std::vector<NodeId> nodes) { spares_ = std::move(nodes); }
  // Whether it is noted; false: the job is done here, which the sender is to be told.
  bool on_offer(const NodeId& from, const WitnessOffer& offer);
  void on_left(const NodeId& node);  // it leaves: not to be asked, nor named
  void on_back(const NodeId& node) { left_.erase(node); }
  void on_view(const view::View& before);
  // Offers this node, or looks for others. `leaves`: this node does; `done_at`: when the last step
  // was committed, if the job is finished.
  void on_tick(bool leaves, std::optional<Time> done_at, Actions& out);

  // Who could be a witness of the next view: those of this one that live, then who offers itself.
  std::vector<NodeId> candidates() const;
  // Whether a view change would bring better witnesses than this view has.
  bool wants_others();
  std::size_t voting_members() const;
  std::size_t spare_count() const;  // nodes that could be one

 private:
  bool leaves(const NodeId& node) const;
  bool takes_part(const NodeId& witness) const;
  bool offers_itself(bool leaves) const;
  bool is_lowest_live_rank() const;

  const JobContext& job_;
  std::vector<NodeId> spares_;
  std::map<NodeId, Time> offers_;     // when each last offered itself
  std::map<NodeId, Time> recruited_;  // when each was last asked to
  std::map<NodeId, Time> left_;       // when each said that it leaves, or was left out
  std::optional<Time> lacked_;
  Time offered_{};
};

}  // namespace gpunode::job
