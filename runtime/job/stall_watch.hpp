// Whom a step waits for, told to people: a stall is reported with who, what is missing, since when,
// and how it ended. Pure; owned by a JobCore.
//
//   state    | waits unusually long | it came, or the view ended
//   goes on  | told                 | -
//   told     | -                    | goes on, told how long it took
#pragma once

#include <optional>
#include <string>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class StallWatch {
 public:
  explicit StallWatch(const JobContext& job) : job_(job) {}

  // `exchange`: of the step under way since `began`, if there is one.
  void on_tick(const std::optional<collective::AllReduce>& exchange, Time began, Actions& out);
  void end(const std::string& how, Actions& out);
  void on_commit(Actions& out);
  void on_view(Actions& out);

  // The stall by now; one that froze the view stays until the next.
  std::optional<Stall> stall(const std::optional<collective::AllReduce>& exchange,
                             Time began) const;
  Duration usual_step() const { return usual_step_; }  // smoothed, commit to commit; zero: none yet

 private:
  std::optional<Stall> longest_wait(const std::optional<collective::AllReduce>& exchange,
                                    Time began) const;

  const JobContext& job_;
  std::optional<Stall> told_;
  Time since_{};
  Duration usual_step_{};
  std::optional<Time> last_commit_;
};

}  // namespace gpunode::job
