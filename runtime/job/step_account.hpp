// Where the time of a job's steps goes, and who holds it up: from what all members tell in their
// DONEs, so that every member can answer for all. Keeps the last steps of the current view. Pure;
// owned by the job actor, and read when a person asks. Costs one small copy a step.
//
//   a member's step = compute (waiting for data included) + wait for others + exchange
//                     + confirm (its DONE to the last one's) + apply
// The exchange alone is what the member waits that was last to compute; what the others wait beyond
// that is waiting. Who is last is told by the owners of chunks: whose partial sums came last, and
// how long after all others'. Where sums come by way of others nobody can tell that: it is then who
// waited least, by as much as the next one waited longer.
//
// Somebody is last in every step. A member is named only where it is the same one for the same cause
// in most of the steps, and what it costs is much against how that varies. Bytes come late, too,
// where processors have more to do than they can: then no link is named.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/job/job_core.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::job {

// Means a step, in seconds and bytes.
struct MemberTimes {
  NodeId node;
  std::uint32_t slices = 0;  // of the newest step
  double slice = 0;          // one slice on one worker
  double compute = 0, data = 0, wait = 0, exchange = 0, confirm = 0, apply = 0;
  double sent_bytes = 0, received_bytes = 0;
  std::uint64_t site = 0;  // see collective::StepTimes
};

enum class Cause : std::uint8_t { compute, data, link };
std::string_view to_string(Cause cause);

// The member that others wait for most.
struct Slowest {
  NodeId node;
  Cause cause = Cause::compute;
  double lost = 0;  // seconds a step that the others wait for it, in the middle
};

struct Explanation {
  std::uint32_t steps = 0;  // that the means are of; 0: nothing known yet
  double step = 0;          // seconds, commit to commit
  std::vector<MemberTimes> members;
  std::optional<Slowest> slowest;  // empty: no member stands out
  bool busy = false;               // as processors have other work, by what members tell
  double confirm = 0;              // seconds a step that DONE costs
  bool confirm_is_long = false;    // more than a tenth of a step
};

class StepAccount {
 public:
  void on_view(const view::View& view);
  void on_committed(Time now, const Committed& committed);
  // `busy`: members on whose machine work waits for a processor most of the time.
  Explanation explain(const std::set<NodeId>& busy = {}) const;

 private:
  struct Step {
    Duration took{};
    std::vector<collective::StepTimes> times;
  };
  std::vector<double> lost_in(const Step& step) const;
  void add_means(Explanation& out) const;
  void name_slowest(const std::set<NodeId>& busy, Explanation& out) const;

  std::vector<NodeId> members_;
  collective::SlicePlan plan_;
  std::deque<Step> steps_;
  std::optional<Time> last_commit_;
};

}  // namespace gpunode::job
