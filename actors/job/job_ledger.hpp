// What one node knows of a job: its history (job_history.hpp), what the last steps took, and the
// figures that a person asks about. Pure; owned by the job actor. `job show`, `job log` and `train
// --follow` print it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/job/job_history.hpp"
#include "actors/job/known_step.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/wall_times.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/job/step_account.hpp"

namespace gpunode::jobs {

// What was seen up to now.
struct JobFigures {
  std::uint64_t committed = 0;
  collective::DataFingerprint running;
  std::optional<double> loss, validation_loss, validation_accuracy;
  Digest state_digest;
  std::uint64_t skipped_in_a_row = 0;  // up to the newest step
  std::uint64_t checkpoint_step = 0;
  std::string checkpoint_path;
  std::uint64_t to_device_bytes = 0, to_host_bytes = 0;  // of the last step that was applied here
};

// What this node knows of the job's arithmetic; 0: unknown.
struct ComputeFacts {
  NodeId self;
  double slice_flops = 0;  // of what is computed of a slice in one step
  double peak_flops = 0;   // a second, of this node's devices
};

class JobLedger {
 public:
  explicit JobLedger(std::uint64_t tokens_per_step = 0) : tokens_per_step_(tokens_per_step) {}

  void know_tokens(std::uint64_t per_step) { tokens_per_step_ = per_step; }
  void know_compute(const ComputeFacts& facts) { compute_ = facts; }

  // What this node knew before it was started again; told before all else.
  void restore(JobHistory history);
  // What another member knows. False: nothing that was missing here.
  bool take(const JobHistory& other);

  void look(const Clock& clock) { times_.look(clock); }
  // What the directory shows of the job at other nodes.
  void on_hints(Time now, const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster) {
    heard_.on_hints(now, hints, cluster);
  }
  // Whether others are heard to make steps.
  bool hears_of_steps() const { return heard_.newest().has_value(); }
  void on_view(const view::View& view);
  // The job goes on from this step: all figures are as of it.
  void undo_to(std::uint64_t step);
  void on_committed(Time now, const job::Committed& committed);
  // Bytes copied between this node's host memory and its devices' in its last step.
  void know_host_traffic(std::uint64_t to_device, std::uint64_t to_host) {
    seen_.to_device_bytes = to_device;
    seen_.to_host_bytes = to_host;
  }
  // state: after this step.
  void on_applied(std::uint64_t step, double loss, const Digest& state);
  // The job is finished and its result came from others; `running`: over all steps.
  void on_result(Time now, std::uint64_t step, const collective::DataFingerprint& running,
                 const Digest& state);
  // The step changed nothing, as its gradient is not finite; told before on_applied. A run of them
  // is one event. Gives its text when the run is worth a line in the log: at 1, 2, 4, 8 ... steps.
  std::optional<std::string> on_skipped(Time now, std::uint64_t step);
  void on_event(Time now, std::string text);
  void on_checkpoint(std::uint64_t step, const std::string& path) {
    seen_.checkpoint_step = step;
    seen_.checkpoint_path = path;
  }
  void set_validation(double loss, std::optional<double> accuracy) {
    seen_.validation_loss = loss;
    seen_.validation_accuracy = accuracy;
  }

  void on_finished(Time now) { finished_ = now; }
  std::optional<Time> finished() const { return finished_; }  // this node's part, with the job
  const JobHistory& history() const { return history_; }
  // Whether a step was committed here, or its result got, since this node was started.
  bool is_current() const { return current_; }
  // The newest step that is known here, and of when that is.
  KnownStep known(const job::JobStatus& status, JobPhase phase) const;
  // When what is told here happened by the wall clock.
  const WallTimes& times() const { return times_; }
  const JobFigures& seen() const { return seen_; }
  job::Explanation explain(const std::set<NodeId>& busy = {}) const {
    return account_.explain(busy);
  }
  // Over the last steps; 0 until there are two.
  double tokens_per_second() const;
  Duration time_left(std::uint64_t total_steps) const;
  // Over the last steps: flops a second of all members, and which share of the peak of this node's
  // devices its own slices take: 1 at most, as a device that does more than its peak, which was
  // measured while others used it, can do what it does. None: not known, or
  // not yet.
  std::optional<double> flops_per_second() const;
  std::optional<double> utilisation() const;

 private:
  std::uint64_t tokens_per_step_;
  view::View view_;
  job::StepAccount account_;
  JobFigures seen_;
  WallTimes times_;
  HeardStep heard_;
  JobHistory history_;
  bool current_ = false;
  std::optional<Time> finished_;
  std::optional<JobHistory::Commit> last_;  // that was made here, undone or not
  std::optional<Time> known_until_;         // of what was known before this node was started again
  std::optional<Time> began_;               // of the first event since then
  std::uint64_t skipped_last_ = 0;
  std::string skipped_text_;  // of the run's event
  // The last steps' commits; slices: of all members, and of this node, computed up to then.
  struct Recent {
    Time time;
    std::uint64_t step = 0, slices = 0, own_slices = 0;
  };
  void follow_history();
  std::optional<double> recent_rate(std::uint64_t Recent::*slices) const;
  ComputeFacts compute_;
  std::uint64_t slices_ = 0, own_slices_ = 0;  // computed since this node was started
  std::deque<Recent> recent_;
};

}  // namespace gpunode::jobs
