// A node that lies in a job, in its own name, as long as the world runs: it has a key of the cluster,
// sees all that is told of views, and signs what it likes, but only for itself. A stranger has no
// part in the job; a member computes honestly besides.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/job/job_message.hpp"
#include "tests/sim/job_model.hpp"

namespace gpunode::sim {

class Liar {
 public:
  Liar(const NodeId& self, bool has_part, const JobModel& model, std::uint64_t seed);

  const NodeId& self() const { return self_; }
  // Hears what anybody sends, and changes what it sends itself.
  void overhear(const NodeId& from, job::JobMessage& message);
  // What it tells one node next, in order.
  std::vector<job::JobMessage> lies();

 private:
  job::JobMessage said(job::JobBody body) const;
  NodeId somebody();
  void note(const job::JobMessage& message);
  view::SignedOrder forged_order();
  void propose_falsely(const view::View& now, view::Accept& accept);
  void gather(const NodeId& from, const view::Accepted& accepted);
  view::View false_view(view::View next);
  view::View forged_view();
  view::Seal seal_of(const NodeId& node, const view::DecidedView& decided);
  job::JobBody forged_notice();
  std::vector<job::JobMessage> false_end();
  job::JobBody small_lie();

  NodeId self_;
  bool has_part_;
  std::uint64_t total_steps_;
  std::uint64_t state_bytes_;
  Rng rng_;
  // It was a quorum by itself once, and no proof holds against a quorum: it is silent from then on.
  bool decides_alone_ = false;
  view::ViewChain newest_;                  // the best proof of a view that it has seen
  std::vector<view::Seal> seen_;            // signatures of others, under other views
  std::optional<view::DecidedView> false_;  // what it asks votes for, and who has given one
  std::optional<view::DecidedView> won_;    // once a quorum has
  std::vector<view::SignedOrder> orders_;   // of a person, that others were shown
  std::vector<NodeId> nodes_;
};

}  // namespace gpunode::sim
