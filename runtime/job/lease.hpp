// Leases of small jobs: where the members alone are no quorum, others may go on from a checkpoint
// without them. So a member commits only while a quorum's word holds that nobody does so yet. Each
// member asks all acceptors again and again; its lease counts from when it asked, theirs from when
// they answered, and it is shorter by a margin, so it always ends first. Who has promised grants
// nothing more and tells how much is left, and the proposer of a rollback waits for the longest.
// Pure; owned by a JobCore.
//
//   as a member | granted by a quorum | time over   | view          | promised
//   none        | holds               | -           | none          | none
//   holds       | holds for longer    | none        | none          | commits nothing anyway
//
//   as an acceptor: what it has granted stands, whatever the view, until the time is over; a restart
//   or a view that leaves a member out counts as if a lease had been granted in that moment.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Lease {
 public:
  explicit Lease(const JobContext& job) : job_(job) {}

  void on_restart();  // an earlier life of this acceptor may have granted one a moment ago
  // As a member. Asks what is due, and tells `offered`, a checkpoint for others to hold; `tells`:
  // also where no lease is needed, or none any more. Why the view is to end, if so.
  std::optional<std::string> on_tick(const Checkpoint& offered, bool tells, Actions& out);
  void ask_at_once() { asked_ = Time{}; }  // there is something new to tell
  // False: it answers something else.
  bool on_grant(const NodeId& from, const LeaseGrant& grant);
  // As an acceptor: the answer to a member of the view, if there is one.
  std::optional<LeaseGrant> on_ask(const LeaseAsk& ask);
  void on_view(const view::View& before);

  bool holds() const;
  // Whether all that earlier inputs committed was committed while nobody else went on.
  bool may_report() const;
  std::uint64_t reported() const;  // see JobStatus
  Duration granted() const;        // what is left of it

 private:
  Time end() const;

  const JobContext& job_;
  std::map<NodeId, Time> granted_;  // by whom in this view: what was asked for when
  Time asked_{};
  Time until_{};
  std::uint64_t reported_ = 0;
  Time granted_until_{};  // as an acceptor, by its own clock
};

}  // namespace gpunode::job
