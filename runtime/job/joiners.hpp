// Joiners: the nodes on their way into the job, as a member knows them from their JOINs: who may
// be given the state, who is ready to be named by a view, and who is barred for a while. Pure;
// owned by a JobCore.
//
//   of a node | JOIN              | ready          | falls behind | a view names it | left out
//   unknown   | asks, or refused  | -              | -            | -               | barred
//   asks      | fresh again       | ready for 0.5 s| -            | unknown         | barred
//   ready     | fresh again       | ready again    | asks         | unknown         | barred
//   barred    | fresh again, named by no view until the time is over               | barred
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/rollback.hpp"

namespace gpunode::job {

class Joiners {
 public:
  explicit Joiners(const JobContext& job) : job_(job) {}

  // Whether its wish is noted; who computes otherwise is told why not.
  enum class Answer : std::uint8_t { old, refused, noted, new_life };
  Answer on_join(const NodeId& from, Boot boot, bool same_view, const JoinAsk& ask, Actions& out);
  void forget(const NodeId& node) { joiners_.erase(node); }  // it leaves
  // Who is named is on its way no longer; who was ready and is not named, or was left out, does not
  // come in again soon, as what cut it off is likely still there: each attempt costs the others a
  // view change, so after each in vain the next waits twice as long.
  void on_view(const view::View& before, std::uint64_t results_from);
  void on_history();  // what was ready is so no longer

  // A member of the view that fetches its state and does not get on: it is barred from the next.
  std::optional<NodeId> bar_stuck_member();
  bool is_barred(const NodeId& node) const;
  bool is_fresh(const NodeId& node) const;
  bool anyone_asks() const;     // member or not
  bool somebody_comes() const;  // and lives, and there is room
  bool has_learner() const;     // who is no member yet, and there is room
  // Whom this node hears and who hears it.
  std::vector<NodeId> reached() const;
  // With what they have; ready stands for: what it lacks is kept here, from `results_from` on, so
  // that a view waits for that alone. After the last step nobody is ready: there is nothing left to
  // compute.
  std::vector<Joining> joining(std::uint64_t results_from) const;

 private:
  struct Joiner {
    Boot boot = 0;
    Time asked{};
    Digest fingerprint;
    std::uint64_t received_bytes = 0;
    Time progress{};
    Time barred_until{};
    Duration refused_for{};  // after the latest views that did not name it; zero: named since
    Time ready_at{};         // its last word that it is ready, if any
    bool hears_us = false;
    std::uint64_t step = 0;  // of its state
    view::CheckpointName checkpoint;
    Digest checkpoint_digest;
  };
  bool is_fresh(const Joiner& joiner) const;

  const JobContext& job_;
  std::map<NodeId, Joiner> joiners_;
};

}  // namespace gpunode::job
